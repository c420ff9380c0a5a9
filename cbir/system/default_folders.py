"""Folders that settings have by default, by the XDG base directory specification."""

import os
from pathlib import Path


def state_folder() -> Path:
    """Return the state folder."""
    return Path(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")) / "cbir"


def encoder_folder() -> Path:
    """Return the folder of encoders."""
    return Path(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")) / "cbir" / "encoders"


def feature_folder() -> Path:
    """Return the folder of cached values."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "cbir" / "features"
