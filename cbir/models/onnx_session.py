"""Sessions of onnxruntime on the CPU."""

import os
from typing import Any

from cbir.errors import InvalidInput


def open_onnx_session(content: bytes) -> Any:
    """Return an InferenceSession of an ONNX file, with as many threads as OMP_NUM_THREADS says, else a core each.

    Raises InvalidInput if onnxruntime cannot load the file.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    threads = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]  # may list a number per nesting level
    options.intra_op_num_threads = int(threads) if threads.isdecimal() else 0  # 0: all cores
    options.log_severity_level = 4  # its errors are raised as well
    try:
        # a fallback would print its reason and try the same again
        return onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # its exceptions have no common base, and no public names
        reason = str(error).strip().splitlines()[0][:300]
        raise InvalidInput(f"onnxruntime cannot load the network: {reason}") from error
