"""Run up to three failed tests of the last run again, alone: python -m tests.run_again [FOLDER].

A test that passes then is a defect, of the test or of the product, and listed as such at the very end. More failures
are no accident.
"""

import json
import subprocess
import sys
from pathlib import Path

AT_MOST = 3
CACHE = Path(".pytest_cache/v/cache/lastfailed")


def failed_tests(folder: Path) -> list[str]:
    """Return the ids of the tests that failed when they were last run."""
    return sorted(json.loads((folder / CACHE).read_text())) if (folder / CACHE).exists() else []


def run_again(folder: Path) -> int:
    """Run the failed tests of the project in `folder` again; return 0 if all of them pass."""
    failed = failed_tests(folder)
    if not 0 < len(failed) <= AT_MOST:
        print(f"{len(failed)} tests have failed: they are not run again" if failed else "no test has failed")
        return 1
    print(f"running {len(failed)} failed test(s) again, alone", flush=True)
    code = subprocess.run([sys.executable, "-m", "pytest", "-ra", *failed], cwd=folder).returncode
    passed = [name for name in failed if code in (0, 1) and name not in failed_tests(folder)]
    if passed:
        print("passed only on the second run:", *passed, sep="\n  ")
    return code


if __name__ == "__main__":
    sys.exit(run_again(Path(*sys.argv[1:])))
