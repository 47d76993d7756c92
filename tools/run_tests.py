"""Run pytest, and run the tests that failed once more, one after the other, when all others have ended.

A test that passes then is unsteady. It is named, and a run may have `MOST` of them, because one test in 13,000 that a
busy machine breaks would otherwise cost a whole run. A test that fails twice is a failure. So is all that is no failure
of a test, such as an error of the collection. Up to `AGAIN` tests are run again even where the run has failed by their
number, so that who mends them knows which are broken.

    python tools/run_tests.py [arguments of pytest]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

MOST = 3
AGAIN = 20


def run_tests(arguments: Sequence[str]) -> int:
    """Return 0 if all tests passed, at most `MOST` of them in the second run only; else the exit code of pytest."""
    with tempfile.TemporaryDirectory() as cache:
        # Pytest keeps the ids of failed tests there, and `--last-failed` reads them.
        command = [sys.executable, "-m", "pytest", *arguments, "-o", f"cache_dir={cache}"]
        code = subprocess.run(command, check=False).returncode
        if code != pytest.ExitCode.TESTS_FAILED:
            return code
        failed = read_failed(Path(cache))
        # What is no test is a module that could not be read, with all the tests in it.
        if not 0 < len(failed) <= AGAIN or any("::" not in test for test in failed):
            return code
        print(f"== failed, run once more alone: {', '.join(failed)}", flush=True)
        subprocess.run([*command, "-n", "0", "--last-failed"], check=False)
        broken = read_failed(Path(cache))
        for test in failed:
            if test not in broken:
                print(f"UNSTEADY: {test} failed, and passed when it was run alone", flush=True)
        return code if broken or len(failed) > MOST else 0


def read_failed(cache: Path) -> list[str]:
    """Return the ids of the tests that failed in the last run, in order."""
    path = cache / "v/cache/lastfailed"
    return sorted(json.loads(path.read_text())) if path.exists() else []


if __name__ == "__main__":
    sys.exit(run_tests(sys.argv[1:]))
