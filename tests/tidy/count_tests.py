#!/usr/bin/env python3
"""Prints "PASSED FAILED" of a meson testlog.junit.xml: GoogleTest cases one by one, other programs as one each."""
import sys
import xml.etree.ElementTree as ElementTree


def main() -> None:
    passed = failed = 0
    for case in ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is None:
            passed += 1
    print(passed, failed)


main()
