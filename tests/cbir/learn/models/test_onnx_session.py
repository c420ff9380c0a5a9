"""Sessions of onnxruntime."""

import os
import subprocess
import sys

import pytest

NETWORK = """
import numpy as np
from cbir.images import from_array
from cbir.store.base import profile
profile.get("lite0-max").load_descriptor()(from_array(np.zeros((64, 64), np.uint8)))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_nothing_is_reported_to_anybody(tmp_path):
    """onnxruntime keeps an id of the machine, and a queue of what it reports, below the home folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "ORT_"))}
    home = {"HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path)}
    subprocess.run([sys.executable, "-c", NETWORK], env=environment | home, check=True)
    written = {path.relative_to(tmp_path).parts[:4] for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {(".local", "share", "cbir", "encoders")}  # the encoder of the package alone
