"""Packages that a test says are installed."""

from importlib.machinery import ModuleSpec
from importlib.util import find_spec


def onnxruntime_alone(name: str) -> ModuleSpec | None:
    """`find_spec` where of all packages with weights none is installed."""
    return find_spec(name) if name == "onnxruntime" else None
