"""Reading of a line of text by the PP-OCRv6 network, whose weights are in the package rapidocr."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from cbir.descriptors.networks.onnx_session import open_onnx_session
from cbir.errors import InvalidInput
from cbir.ingest.checks.stroke_rows import Grey, TextLine
from cbir.system.extras import install_command

WEIGHTS = "PP-OCRv6_rec_small.onnx"
HEIGHT, LEAST_WIDTH, GREATEST_WIDTH = 48, 48, 320  # of the network's input
STEP = 16  # widths are multiples of it
MARGIN = 0.3  # around a line, in its heights

Characters = list[tuple[str, float]]


class TextReader:
    """Reads lines; the network runs in one thread. Thread-safe."""

    def __init__(self) -> None:
        self._session: Any = open_onnx_session(reader_path().read_bytes(), threads=1)
        characters = self._session.get_modelmeta().custom_metadata_map["character"].splitlines()
        self._characters = ["", *characters, " "]
        self._input = self._session.get_inputs()[0].name

    def read(self, grey: Grey, line: TextLine) -> Characters:
        """Return the characters in a line with their probabilities, by connectionist temporal classification.

        Parameters
        ----------
        grey : (height, width) uint8
            Picture.
        line : TextLine
            Box in it; of a longer line only its beginning is read.
        """
        values = _input_values(grey, line)
        shares = self._session.run(None, {self._input: values})[0][0]
        best = shares.argmax(axis=1)
        is_new = (best > 0) & np.r_[True, best[1:] != best[:-1]]
        steps = np.flatnonzero(is_new & (best < len(self._characters)))
        return [(self._characters[best[step]], float(shares[step, best[step]])) for step in steps]


@cache
def load_reader() -> TextReader:
    """Return the reader of this process."""
    return TextReader()


def reader_path() -> Path:
    """Return the file with the network; raises InvalidInput with the remedy if its package is not installed."""
    spec = find_spec("rapidocr")
    path = Path(spec.origin).parent / "models" / WEIGHTS if spec and spec.origin else None
    if path is None or not path.is_file():
        raise InvalidInput(f"the intake check needs rapidocr 3.10 or later: {install_command('intake')}")
    return path


def _input_values(grey: Grey, line: TextLine) -> Any:
    margin = MARGIN * (line.bottom - line.top) + 1
    top, bottom = max(0, round(line.top - margin)), round(line.bottom + margin)
    left, right = max(0, round(line.left - margin)), round(line.right + margin)
    part = grey[top : max(bottom, top + 1), left : max(right, left + 1)]
    scale = HEIGHT / part.shape[0]
    part = part[:, : max(1, int(GREATEST_WIDTH / scale))]
    size = (max(STEP, min(GREATEST_WIDTH, round(part.shape[1] * scale))), HEIGHT)
    resized = cv2.resize(part, size, interpolation=cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA)
    width = min(max(LEAST_WIDTH, -(-size[0] // STEP) * STEP), GREATEST_WIDTH)
    values = np.zeros((1, 3, HEIGHT, width), np.float32)
    values[..., : size[0]] = resized.astype(np.float32) / 127.5 - 1
    return values
