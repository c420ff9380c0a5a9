"""Write docs/openapi.json, docs/annotation-openapi.json and docs/errors.md: `python -m service.write_docs docs`."""

import json
import sys
from pathlib import Path

from cbir import settings
from service.app import create_app
from service.features.annotate.annotation_pages import keep_to_study
from service.http import problems
from service.routes import openapi


def generated_docs() -> dict[str, str]:
    """Return the generated documents by file name."""
    document = openapi.build_openapi(create_app("collection", settings.load()))
    annotation = create_app("collection", settings.load(), keep_to_study)
    return {
        "annotation-openapi.json": json.dumps(openapi.build_openapi(annotation), indent=1) + "\n",
        "openapi.json": json.dumps(document, indent=1) + "\n",
        "errors.md": problems.problem_kinds_markdown(),
    }


if __name__ == "__main__":
    for name, text in generated_docs().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")
