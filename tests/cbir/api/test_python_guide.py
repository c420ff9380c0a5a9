"""The code of docs/python.md runs as it is printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cbir.evaluation.small_run import COUNT, draw, labels_of

GUIDE = Path(__file__).parents[3] / "docs" / "python.md"


@pytest.mark.slow
def test_the_code_of_the_guide_runs(tmp_path):
    (tmp_path / "scans").mkdir()
    rows = ["path,label,grade,patient"]
    for number in range(COUNT):
        draw(tmp_path / "scans" / f"{number}.png", number)
        rows.append(f"{number}.png,{('even', 'odd')[number % 2]},{number % 4},{labels_of(number)['patient']}")
    (tmp_path / "scans" / "labels.csv").write_text("\n".join(rows) + "\n")
    draw(tmp_path / "query.png", 101, side=200)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 8
    (tmp_path / "guide.py").write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:cbir", "guide.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "eprf:P=4" in done.stdout
