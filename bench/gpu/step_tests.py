"""The tests of the GPU and of the choice of a device, and how many passed."""

import subprocess
import sys
from xml.etree import ElementTree

from step_results import OUT, attempt

TESTS = (
    "tests/cbir/system/test_device_description.py",
    "tests/cbir/system/test_device_encoder.py",
    "tests/cbir/system/test_device_memory.py",
    "tests/cbir/system/test_device_trial.py",
    "tests/cbir/gallery/test_gpu_flat_index.py",
    "tests/cbir/search/test_snapshot_search.py",
)


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
    subprocess.run([sys.executable, "-m", "pytest", *options, *TESTS], check=False)
    suites = list(ElementTree.parse(file).getroot().iter("testsuite"))
    return {
        name: sum(int(suite.get(name, 0)) for suite in suites)
        for name in ("tests", "failures", "errors", "skipped")
    }


if __name__ == "__main__":
    attempt("tests.counts", run)
