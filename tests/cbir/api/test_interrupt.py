"""Ctrl-C ends a command in one line, with whole files only."""

import signal
import subprocess
import sys
import time

import cv2
import pytest


@pytest.mark.slow
def test_ctrl_c_leaves_whole_files_and_one_line(tmp_path):
    command = [
        sys.executable,
        "-m",
        "cbir.api.main",
        "dataset",
        "phantoms",
        tmp_path / "out",
        "--count",
        "100000",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    give_up = time.monotonic() + 60
    while not list(tmp_path.glob("out/*.png")) and time.monotonic() < give_up:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert printed == ""
    assert errors.splitlines()[-1] == "cbir: interrupted"
    assert "Traceback" not in errors
    drawn = list((tmp_path / "out").iterdir())
    assert drawn
    assert not [path for path in drawn if path.suffix == ".partial"]
    assert all(cv2.imread(str(path)) is not None for path in drawn if path.suffix == ".png")
