"""Sessions of onnxruntime on the CPU."""

import os
from importlib.util import find_spec
from typing import Any

from cbir.errors import InvalidInput

# onnxruntime 1.32 reports its use to its maker, and keeps an id of the machine, unless this is set before its import.
NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"


def check_onnxruntime() -> None:
    """Raise InvalidInput, with the remedy, if onnxruntime is not installed."""
    if find_spec("onnxruntime") is None:
        raise InvalidInput("networks need onnxruntime, which is missing: pip install onnxruntime")


def open_onnx_session(content: bytes, threads: int | None = None) -> Any:
    """Return an InferenceSession of an ONNX file.

    It has so many `threads`, by default as many as OMP_NUM_THREADS says, else a core each. Raises InvalidInput if
    onnxruntime is missing or cannot load the file.
    """
    check_onnxruntime()
    os.environ[NO_TELEMETRY] = "1"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if threads is None:
        text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]  # may list a number per nesting level
        threads = int(text) if text.isdecimal() else 0  # 0: all cores
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # its errors are raised as well
    try:
        # a fallback would print its reason and try the same again
        return onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # its exceptions have no common base, and no public names
        reason = str(error).strip().splitlines()[0][:300]
        raise InvalidInput(f"onnxruntime cannot load the network: {reason}") from error
