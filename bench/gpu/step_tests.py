"""The tests of the GPU and of the choice of a device, and how many passed."""

import subprocess
import sys
from xml.etree import ElementTree

from step_results import OUT, attempt

FOLDERS = ("tests/cbir/gpu", "tests/cbir/hardware")


def run() -> dict[str, int]:
    """Run the tests; return how many there were, failed and were skipped."""
    file = OUT / "junit.xml"
    options = (
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--maxfail=20",
        "--timeout=60",
        f"--junitxml={file}",
    )
    subprocess.run([sys.executable, "-m", "pytest", *options, *FOLDERS], check=False)
    suites = list(ElementTree.parse(file).getroot().iter("testsuite"))
    return {
        name: sum(int(suite.get(name, 0)) for suite in suites)
        for name in ("tests", "failures", "errors", "skipped")
    }


if __name__ == "__main__":
    attempt("tests.counts", run)
