"""Write docs/openapi.json and docs/errors.md: `python -m service.write_docs docs`."""

import json
import sys
from pathlib import Path

from cbir import settings
from service import openapi, problem_kinds
from service.app import create_app


def texts() -> dict[str, str]:
    """The generated documents by file name."""
    document = openapi.describe(create_app("collection", settings.load()))
    return {"openapi.json": json.dumps(document, indent=1) + "\n", "errors.md": problem_kinds.as_markdown()}


if __name__ == "__main__":
    for name, text in texts().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")
