"""Benchmarks, which are scripts, as modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[1] / "bench"


def loaded(name: str) -> ModuleType:
    """bench/NAME.py, which finds those beside it."""
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location(f"bench_{name}", FOLDER / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # where dataclasses look for their own names
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module
