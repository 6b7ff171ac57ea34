#!/usr/bin/env python3
"""Tests of what says that the tests are proof: outcomes.py, test_cases.py and spec_coverage.py."""
import contextlib
import io
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import outcomes  # noqa: E402
import spec_coverage  # noqa: E402
from outcomes import Outcome  # noqa: E402
from test_cases import cases_of  # noqa: E402

JUNIT = """<testsuites>
<testsuite name="unit"><testcase name="Runs" status="run" classname="Suite"/>
<testcase name="Runs/first" status="run" classname="Every/Param"/>
<testcase name="Typed" status="run" classname="OfType/0"/>
<testcase name="DISABLED_Not" status="notrun" classname="Suite"/>
<testcase name="Waits" status="run" classname="Suite"><skipped>../tests/a_test.cc:7
takes root</skipped></testcase>
<testcase name="Breaks" status="run" classname="Suite"><failure/></testcase></testsuite>
<testsuite name="causeway"><testcase name="causeway:sim / sim_sweep" classname="causeway"/>
<testcase name="causeway:tidy / deploy" classname="causeway"><skipped/></testcase></testsuite>
</testsuites>"""

LOG = """-- noise
ok starts (3.1 s)
ok callback-vhost-4096 (12.0)
FAIL drill: a link flaps: no answer: it is silent
skip the page draws: there is no chromium (package chromium)
4 passed, 2 failed
"""


class OutcomesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "file"

    def of_log(self, text: str) -> list[Outcome]:
        self.file.write_text(text, encoding="utf-8")
        return outcomes.from_log("ops", self.file)

    def report(self, *found: Outcome) -> tuple[int, list[str]]:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = outcomes.report(list(found))
        return status, said.getvalue().splitlines()

    def test_googletest_cases_are_told_one_by_one_and_programs_whole(self) -> None:
        self.file.write_text(JUNIT, encoding="utf-8")
        self.assertEqual(
            outcomes.from_junit("unit", self.file),
            [
                Outcome("unit", "Suite.Runs", "passed"),
                Outcome("unit", "Param.Runs", "passed"),
                Outcome("unit", "OfType.Typed", "passed"),
                Outcome("unit", "Suite.DISABLED_Not", "skipped", "the test is disabled"),
                Outcome("unit", "Suite.Waits", "skipped", "takes root"),
                Outcome("unit", "Suite.Breaks", "failed"),
                Outcome("unit", "sim_sweep", "passed"),
                Outcome("unit", "deploy", "skipped", "no reason given"),
            ],
        )

    def test_a_log_tells_its_cases_and_its_last_line_those_that_it_does_not_name(self) -> None:
        self.assertEqual(
            self.of_log(LOG),
            [
                Outcome("ops", "starts", "passed"),
                Outcome("ops", "callback-vhost-4096", "passed"),
                Outcome("ops", "drill: a link flaps", "failed", "no answer: it is silent"),
                Outcome("ops", "the page draws", "skipped", "there is no chromium (package chromium)"),
                Outcome("ops", "(ops)", "passed"),
                Outcome("ops", "(ops)", "passed"),
                Outcome("ops", "(ops)", "failed"),
            ],
        )

    def test_a_log_without_its_last_line_is_a_failure(self) -> None:
        self.assertEqual(self.of_log("ok starts (3.1 s)\n")[-1], Outcome("ops", "(ops)", "failed", "ended without its last line"))

    def test_a_case_that_passes_at_its_second_try_counts_once_and_is_told(self) -> None:
        found = self.of_log("again stalls: not done in 480 s\nok stalls (4.0)\n1 passed, 0 failed\n")
        self.assertEqual(found, [Outcome("ops", "stalls", "again", "not done in 480 s"), Outcome("ops", "stalls", "passed")])
        status, said = self.report(*found)
        self.assertEqual((status, said[-1]), (0, "1 passed, 0 failed"))
        self.assertIn("failed at first, look into it: ops stalls: not done in 480 s", said)

    def test_the_file_gives_back_what_was_written(self) -> None:
        written = [Outcome("unit", "Suite.Runs", "passed"), Outcome("ops", "starts", "skipped", "takes root")]
        outcomes.append(self.file, written)
        self.assertEqual(outcomes.read(self.file), written)

    def test_a_skip_counts_as_failed_unless_its_reason_is_allowed(self) -> None:
        status, said = self.report(Outcome("unit", "A.B", "passed"), Outcome("ops", "x", "skipped", "there is no tshark"))
        self.assertEqual((status, said[-1]), (1, "1 passed, 1 failed"))
        self.assertEqual(said[-2], "1 skipped, 1 of them for a reason that tests/skips.tsv does not allow here")
        self.assertIn("skipped, which counts as failed: ops x: there is no tshark", said)
        status, said = self.report(Outcome("unit", "A.B", "passed"), Outcome("unit", "x", "skipped", "no captures here"))
        self.assertEqual((status, said[-1]), (0, "1 passed, 0 failed"))
        self.assertEqual(said[-2], "1 skipped, 0 of them for a reason that tests/skips.tsv does not allow here")
        self.assertIn("skipped: unit x: no captures here", said)

    def test_each_skip_stands_in_the_line_before_the_last_and_only_those_not_allowed_in_the_last(self) -> None:
        refused = [Outcome("ops", name, "skipped", "there is no tshark") for name in ("x", "y")]
        allowed = [Outcome("unit", name, "skipped", "no captures here") for name in ("v", "w", "z")]
        status, said = self.report(Outcome("unit", "A.B", "passed"), Outcome("unit", "A.C", "failed"), *refused, *allowed)
        self.assertEqual(
            (status, said[-2:]),
            (1, ["5 skipped, 2 of them for a reason that tests/skips.tsv does not allow here", "1 passed, 3 failed"]),
        )

    def test_a_reason_is_allowed_only_where_its_row_says(self) -> None:
        allowed = [(re.compile("slow"), "sanitizers")]
        self.assertTrue(outcomes.is_allowed(Outcome("asan", "x", "skipped", "slow"), allowed))
        self.assertFalse(outcomes.is_allowed(Outcome("unit", "x", "skipped", "slow"), allowed))
        self.assertFalse(outcomes.is_allowed(Outcome("asan", "x", "skipped", "slow and more"), allowed))

    def test_a_run_without_a_passed_test_has_failed(self) -> None:
        self.assertEqual(
            self.report(),
            (1, ["0 skipped, 0 of them for a reason that tests/skips.tsv does not allow here", "0 passed, 0 failed"]),
        )


class ProofTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "tests/support").mkdir(parents=True)
        self.problems: list[str] = []

    def write(self, name: str, text: str) -> Path:
        path = self.root / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def proofs_of(self, text: str, name: str = "unit/a/a_test.cc") -> dict[str, list[spec_coverage.Proof]]:
        path = self.write(name, text)
        (path.parent / "meson.build").write_text(f"files('{path.name}')", encoding="utf-8")
        return spec_coverage.collect(self.root, self.problems)

    def test_a_proof_asserts_something(self) -> None:
        found = self.proofs_of("// Proves BIDI-1-1\nTEST(A, Checks) {\n  EXPECT_EQ(f(), 1);\n}\n")
        self.assertEqual([str(proof) for proof in found["BIDI-1-1"]], ["tests/unit/a/a_test.cc:1 A.Checks"])
        self.assertEqual(self.problems, [])

    def test_a_test_without_an_assertion_proves_nothing(self) -> None:
        for body in ("  f();\n", "  // EXPECT_EQ(f(), 1);\n  f();\n", "  expect_unknown(f());\n"):
            self.problems.clear()
            self.assertEqual(
                self.proofs_of("// Proves BIDI-1-1\nTEST(A, Calls) {\n" + body + "}\nTEST(A, B) {\n  EXPECT_TRUE(g());\n}\n"), {}
            )
            self.assertEqual(self.problems, ["tests/unit/a/a_test.cc:1: A.Calls asserts nothing, so it proves nothing"])

    def test_a_helper_that_asserts_counts(self) -> None:
        self.write(
            "unit/a/rig.h",
            "struct Rig {\n  void expect_reply(int n) {\n    EXPECT_EQ(n, 1);\n  }\n"
            "  void expect_both(int n) { expect_reply(n); }\n  void expect_nothing(int n) { (void)n; }\n};\n",
        )
        path = self.write(
            "unit/a/b_test.cc", "TEST_F(Rig, One) {\n  expect_both(1);\n}\nTEST_F(Rig, None) {\n  expect_nothing(1);\n}\n"
        )
        self.assertEqual([case.asserts for case in cases_of(path, self.root)], [True, False])

    def test_a_comment_inside_a_test_is_that_tests(self) -> None:
        found = self.proofs_of("TEST(A, B) {\n  f();\n  // Proves BIDI-1-1, BIDI-1-2: so.\n  EXPECT_TRUE(g());\n}\n")
        self.assertEqual({row: proofs[0].case for row, proofs in found.items()}, {"BIDI-1-1": "A.B", "BIDI-1-2": "A.B"})

    def test_disabled_tests_and_helpers_prove_nothing(self) -> None:
        self.assertEqual(
            self.proofs_of(
                "// Proves BIDI-1-1\nTEST(A, DISABLED_B) {\n  EXPECT_TRUE(g());\n}\n"
                "// Proves BIDI-1-1\nvoid f() {\n  EXPECT_TRUE(g());\n}\n"
            ),
            {},
        )
        self.assertEqual(
            self.problems,
            ["tests/unit/a/a_test.cc:1: stands at no test that runs", "tests/unit/a/a_test.cc:5: stands at no test that runs"],
        )

    CASES = (
        "# Proves BIDI-1-1\ndef recall(rig):\n    _twice(rig)\n\n\ndef _twice(rig):\n    if not rig:\n        raise LabError('no')\n\n\n"
        "# Proves BIDI-1-2\ndef looks(rig):\n    rig.mount()\n\n\n# Proves BIDI-1-3\ndef forgotten(rig):\n    expect(rig, 'a rig')\n\n\n"
        "def cases():\n    add(Case(f'{1}')); cases.append(Case(f\"recall-{wire.name}\", wire, recall, True)); ('x', looks)\n"
    )

    def test_a_case_in_python_asserts_by_raising_and_has_a_name_in_a_run(self) -> None:
        found = self.proofs_of(self.CASES, "interop/lab/cases.py")
        self.assertEqual(list(found), ["BIDI-1-1"])
        self.assertEqual(
            self.problems,
            [
                "tests/interop/lab/cases.py:11: looks asserts nothing, so it proves nothing",
                "tests/interop/lab/cases.py:16: forgotten is the function of no case",
            ],
        )

    def unproved(self, found: dict[str, list[spec_coverage.Proof]], *ran: Outcome) -> list[str]:
        self.problems.clear()
        spec_coverage.check_ran(found, list(ran), self.problems)
        return self.problems

    def test_a_proof_has_passed_in_the_run(self) -> None:
        found = self.proofs_of("// Proves BIDI-1-1\nTEST(A, B) {\n  EXPECT_TRUE(g());\n}\n")
        silent = ["tests/unit/a/a_test.cc:1: A.B did not pass in this run, so it proves nothing"]
        self.assertEqual(self.unproved(found, Outcome("unit", "A.B", "passed")), [])
        self.assertEqual(self.unproved(found, Outcome("unit", "A.B", "again", "x"), Outcome("unit", "A.B", "passed")), [])
        self.assertEqual(self.unproved(found, Outcome("unit", "A.B", "again", "x"), Outcome("unit", "A.B", "failed")), silent)
        self.assertEqual(self.unproved(found, Outcome("unit", "A.C", "passed")), silent)
        self.assertEqual(self.unproved(found, Outcome("unit", "A.C", "passed"), Outcome("asan", "A.B", "passed")), silent)
        self.assertEqual(self.unproved(found, Outcome("unit", "A.C", "passed"), Outcome("unit", "A.B", "skipped", "x")), silent)
        self.assertEqual(self.unproved(found, Outcome("unit", "A.B", "passed"), Outcome("unit", "A.B", "skipped", "x")), silent)

    def test_a_case_of_the_full_run_only_is_no_proof(self) -> None:
        found = self.proofs_of(self.CASES, "interop/lab/cases.py")
        self.assertEqual(self.unproved(found, Outcome("interop", "recall-vhost-4096", "passed")), [])
        self.assertEqual(len(self.unproved(found, Outcome("interop", "no-recall-vhost", "passed"))), 1)
        self.assertEqual(self.unproved(found, Outcome("interop", "(interop)", "skipped", "takes root")), [])


if __name__ == "__main__":
    unittest.main(verbosity=0)
