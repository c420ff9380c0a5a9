"""Results of a step of the GPU kit: a line of JSON each, in $OUT/results.jsonl, as soon as it is there."""

import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cbir.system.device import choose_device

SMALL = bool(os.environ.get("SMALL"))  # a trial of the kit itself, on a CPU
GPU = choose_device("auto").name == "cuda"  # one that passes its trial
DEVICES = ["cpu", "cuda"] if GPU else ["cpu"]
OUT = Path(os.environ.get("OUT", "."))


def report(step: str, **facts: Any) -> None:
    """Add a result; `step` names what was measured."""
    row = {"step": step} | facts
    print(json.dumps(row), flush=True)
    with (OUT / "results.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


def attempt(step: str, work: Callable[[], dict[str, Any]]) -> None:
    """Report what `work` returns, or why it failed: the steps after it go on."""
    try:
        report(step, **work())
    except Exception as error:  # whatever a device or its libraries raise is a result here
        traceback.print_exc()
        report(step, failed=f"{type(error).__name__}: {str(error).strip()[-300:]}")


def without_gpu(step: str) -> bool:
    """Report "no GPU" for a step that needs one; return whether there is none."""
    if not GPU:
        report(step, skipped="no GPU")
    return not GPU
