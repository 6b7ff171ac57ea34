#!/usr/bin/env python3
"""Checks what the pages say against the tree: docs.py ROOT. Links of all pages lead to files and headings that are there. In those
for operators and contributors (PAGES) metrics are ones that causewayd exports, keys of the configuration are in its reference, paths
from the root exist, and numbers are those of the code (NUMBERS). The glossary has each term once."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/figures.md",
    "docs/glossary.md",
    "docs/nfs.md",
    "docs/style.md",
    "docs/supported.md",
    "deploy/README.md",
    "deploy/GUIDE.md",
    "deploy/SECURITY.md",
    "deploy/monitoring/README.md",
    "deploy/monitoring/RUNBOOK.md",
)
# Build directories, hidden ones, what npm fetched.
NO_PAGES = re.compile(r"(build[^/]*|\.[^/]+)/|(.*/)?node_modules/")
# Files and folders in backticks, as the pages in docs/ and CONTRIBUTING.md write them: from the root.
TREE_PATH = re.compile(
    r"`((?:apps|control|dataplane|deploy|docs|gateway|iwarp|rnic|rocev2|rpcrdma|telemetry|tests|verbs)/[\w./-]*)`"
)
SUFFIXES = ("", "_bucket", "_count", "_sum")
# Keys as the pages write them: `section.key`.
SECTIONS = "gateway dataplane port listener backend route client limits roce iwarp metrics admin log".split()


@dataclass(frozen=True)
class Number:
    """What a page says, in a group of `said`, is what a source says, in a group of `is_there`, times `times`. White space is one space."""

    page: str
    said: str
    source: str
    is_there: str
    times: float = 1


LIMITS = "control/config/config.h"
ADMIN_PLACES, ADMIN_SERVER = "control/admin/admin_quota.h", "control/admin/admin_server.h"
NAMES = "gateway/gateway_stats.h"
NUMBERS = (
    Number(
        "docs/supported.md", r"the READ request \((\d+) packets\)", "rocev2/rc/rc_options.h", r"read_request_packets = (\d+);"
    ),
    Number("docs/supported.md", r"with the last (\d+) minutes", "telemetry/history.h", r"kSamplesMax = (\d+);", 1 / 60),
    Number("deploy/README.md", r"keeps the last (\d+) minutes", "telemetry/history.h", r"kSamplesMax = (\d+);", 1 / 60),
    Number(
        "deploy/README.md",
        r"disconnected, at most (\d+) s",
        "dataplane/control_thread.cc",
        r"kShutdownTimeout = std::chrono::seconds\((\d+)\)",
    ),
    Number("deploy/README.md", r"at most (\d+): RoCE packets of 2048", LIMITS, r"kAfXdpMtuMax = (\d+);"),
    Number(
        "deploy/README.md",
        r"outlive its client by up to (\d+) s",
        "gateway/gateway_options.h",
        r"orphan_max = Duration::seconds\((\d+)\)",
    ),
    Number(
        "deploy/GUIDE.md", r"`nconnect=N` makes N. (\d+) by default", LIMITS, r"over all listeners.*?connections_max = (\d+);"
    ),
    Number("deploy/GUIDE.md", r"per connection, (\d+) by default", LIMITS, r" credits = (\d+);"),
    Number("deploy/GUIDE.md", r"\(RNR NAK, (\d+) ms", "rocev2/rc/responder.cc", r"kBuffersTimer = 20; // (\d+)\.24 ms"),
    Number("deploy/GUIDE.md", r"room for (\d+) names of listeners", NAMES, r"kListenerIdsMax = (\d+);"),
    Number("deploy/GUIDE.md", r"(\d+) of backends and", NAMES, r"kBackendIdsMax = (\d+);"),
    Number("deploy/GUIDE.md", r"(\d+) of sections in its life", NAMES, r"kClientIdsMax = (\d+);"),
    Number("deploy/GUIDE.md", r"the live page has the last (\d+)", "telemetry/log.h", r"kLogRecentMax = (\d+);"),
    Number("deploy/SECURITY.md", r"A packet up to (\d+) PSNs ahead", "rocev2/wire/gap_report.h", r"kWordsMax = (\d+);", 64),
    Number("deploy/SECURITY.md", r"so (\d+) PSNs fit", "rocev2/wire/gap_report.h", r"kWordsMax = (\d+);", 64),
    Number("deploy/SECURITY.md", r"metrics address \| (\d+),", "telemetry/metrics_server.h", r"kClientsMax = (\d+);"),
    Number(
        "deploy/SECURITY.md",
        r"(\d+) KiB for a request, 5 s",
        "telemetry/metrics_server.h",
        r"kRequestBytesMax = (\d+);",
        1 / 1024,
    ),
    Number(
        "deploy/SECURITY.md",
        r"for a request, (\d+) s for it",
        "telemetry/metrics_server.h",
        r"client_timeout = Duration::seconds\((\d+)\)",
    ),
    Number("deploy/SECURITY.md", r"admin socket \| (\d+),", ADMIN_PLACES, r"kMax = (\d+);"),
    Number("deploy/SECURITY.md", r"of them (\d+) that are not root", ADMIN_PLACES, r"kOthersMax = (\d+);"),
    Number("deploy/SECURITY.md", r"(\d+) that may only look", ADMIN_PLACES, r"kReadersMax = (\d+);"),
    Number("deploy/SECURITY.md", r"(\d+) of one user;", ADMIN_PLACES, r"kPerUserMax = (\d+);"),
    Number("deploy/SECURITY.md", r"(\d+) KiB and 30 s for a request", ADMIN_SERVER, r"kRequestBytesMax = (\d+);", 1 / 1024),
    Number("deploy/SECURITY.md", r"KiB and (\d+) s for a request", ADMIN_SERVER, r"kIdleTimeout = Duration::seconds\((\d+)\)"),
    Number(
        "deploy/SECURITY.md", r"(\d+) s without reading the answer", ADMIN_SERVER, r"kStallTimeout = Duration::seconds\((\d+)\)"
    ),
    Number("deploy/SECURITY.md", r"log lines \| (\d+) at once", "telemetry/log.h", r"kLogBurst = (\d+);"),
    Number("dataplane/README.md", r"naps up to (\d+) ms", "dataplane/core_loop.cc", r"kSleepMax = Duration::ms\((\d+)\)"),
    Number(
        "dataplane/README.md",
        r"after (\d+) us without work",
        "dataplane/core_loop.cc",
        r"kIdleBeforeSleep = Duration::us\((\d+)\)",
    ),
    Number(
        "dataplane/README.md", r"payload under (\d+) bytes", "rocev2/wire/packet_builder.h", r"kAttachThresholdBytes = (\d+);"
    ),
    Number(
        "dataplane/README.md",
        r"given up \(`orphan_max`, (\d+) s",
        "gateway/gateway_options.h",
        r"orphan_max = Duration::seconds\((\d+)\)",
    ),
    Number(
        "telemetry/README.md",
        r"scrape waits at most (\d+) ms",
        "telemetry/collector.h",
        r"kSnapshotTimeout = Duration::ms\((\d+)\)",
    ),
)


def exported(root: Path) -> set[str]:
    text = (root / "tests/unit/telemetry/metrics.golden").read_text(encoding="utf-8")
    return {name + suffix for name in re.findall(r"^# TYPE (\S+)", text, re.MULTILINE) for suffix in SUFFIXES}


def keys(root: Path) -> set[str]:
    found, section = set(), ""
    for line in (root / "deploy/config/causeway.toml").read_text(encoding="utf-8").splitlines():
        if header := re.fullmatch(r"\[+(\w+)\]+", line):
            section = header[1]
        elif key := re.match(r"#?(\w+) = ", line):
            found.add(f"{section}.{key[1]}")
    return found


def anchors(text: str) -> set[str]:
    return {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


def check_links(root: Path, page: str, text: str) -> list[str]:
    problems = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        path = (root / page).parent / name if name else root / page
        if not path.exists():
            problems.append(f"{page}: no {target}")
        elif anchor and anchor not in anchors(path.read_text(encoding="utf-8")):
            problems.append(f"{page}: {target}: no such heading")
    return problems


def packaged(root: Path) -> dict[str, str]:
    """The files that causeway-doc has, from the root of the tree, and where below its folder they are."""
    there, folder = {}, "usr/share/doc/causeway/"
    for line in (root / "deploy/debian/causeway-doc.install").read_text(encoding="utf-8").splitlines():
        source, target = (line + "/").split()
        for path in sorted(root.glob(source)):
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                there[file.relative_to(root).as_posix()] = f"{target}{file.relative_to(path.parent).as_posix()}".removeprefix(
                    folder
                )
    return there


def check_packaged_links(root: Path) -> list[str]:
    """Installed pages lie as they do in the tree, so that their links lead somewhere when what they link to is installed too."""
    files = packaged(root)
    problems = [f"deploy/debian/causeway-doc.install: {name} becomes {there}" for name, there in files.items() if name != there]
    for page in (name for name in files if name.endswith(".md")):
        for target in re.findall(r"\]\(([^)#\s]+)[^)\s]*\)", (root / page).read_text(encoding="utf-8")):
            path = ((root / page).parent / target).resolve()
            if not target.startswith("http") and path.relative_to(root.resolve()).as_posix() not in files:
                problems.append(f"deploy/debian/causeway-doc.install: {page} links to {target}, which is not in the package")
    return problems


def check_paths(root: Path, page: str, text: str) -> list[str]:
    return [f"{page}: no {name}" for name in sorted(set(TREE_PATH.findall(text))) if not (root / name).exists()]


def check_metrics(page: str, text: str, known: set[str]) -> list[str]:
    """Whole names; beginnings, as `causewayctl stats` takes them, have to begin something."""
    names = set(re.findall(r"(?<![/\w])causeway_\w+", text))
    return [f"{page}: causewayd exports no {name}" for name in sorted(names) if not any(each.startswith(name) for each in known)]


def check_keys(page: str, text: str, known: set[str]) -> list[str]:
    named = set(re.findall(r"`((?:" + "|".join(SECTIONS) + r")\.\w+)[` =]", text))
    files = (".md", ".toml", ".h", ".cc", ".py", ".sh", ".conf")
    return [f"{page}: the configuration has no {name}" for name in sorted(named - known) if not name.endswith(files)]


def check_glossary(text: str) -> list[str]:
    """A row has one term, or several with commas between them; none stands in two rows."""
    terms = [term for row in re.findall(r"^\| (.+?) \|", text, re.MULTILINE) if row != "term" for term in row.split(", ")]
    return [f"docs/glossary.md: {term!r} stands twice" for term in sorted({term for term in terms if terms.count(term) > 1})]


def check_number(root: Path, number: Number) -> list[str]:
    page, source = (" ".join((root / name).read_text(encoding="utf-8").split()) for name in (number.page, number.source))
    said, there = re.search(number.said, page), re.search(number.is_there, source)
    if said is None or there is None:
        return [
            f"{number.page if said is None else number.source}: nothing like {number.said if said is None else number.is_there}"
        ]
    expected = float(there[1]) * number.times
    return [] if float(said[1]) == expected else [f"{number.page}: {said[0]!r}, but {number.source} has {expected:g}"]


def main() -> int:
    root = Path(sys.argv[1])
    metrics, settings = exported(root), keys(root)
    problems = []
    every = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.md"))
    every = [page for page in every if not NO_PAGES.match(page)]
    for page in every:
        problems += check_links(root, page, (root / page).read_text(encoding="utf-8"))
    for page in PAGES:
        text = (root / page).read_text(encoding="utf-8")
        problems += check_paths(root, page, text) + check_metrics(page, text, metrics) + check_keys(page, text, settings)
    problems += check_packaged_links(root)
    problems += check_glossary((root / "docs/glossary.md").read_text(encoding="utf-8"))
    problems += [problem for number in NUMBERS for problem in check_number(root, number)]
    print(
        "\n".join(problems)
        if problems
        else f"{len(every)} pages link to what there is, {len(PAGES)} name what there is, and {len(NUMBERS)} numbers are the code's"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
