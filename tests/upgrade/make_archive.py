"""Write what a version leaves on disk, and the answers it gives, for the tests of later versions.

git worktree add /tmp/cbir-0.1.0 9d1a7b4
.venv/bin/python -m tests.upgrade.make_archive /tmp/cbir-0.1.0 tests/upgrade/0.1.0.zip
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

IMAGES = {"tamura": 16, "lite0": 6}  # by profile: without and with an encoder
METHODS = ("none", "auto", "eprf")
DAY = (2026, 1, 1, 0, 0, 0)  # of every file: the same contents give the same archive


def run(checkout: Path, folder: Path, *arguments: str) -> str:
    """Return what a command of the version in `checkout` prints, started in `folder`."""
    command = [sys.executable, "-c", "from cbir.api.main import main; main()", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "CBIR_STATE_FOLDER": "state"}
    return subprocess.run(
        command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def search(checkout: Path, folder: Path, collection: str, query: str, method: str) -> list[dict[str, Any]]:
    """Return the first hits of a query."""
    options = ("--collection", collection, "--rerank", method, "-k", "8", "--format", "json")
    hits: list[dict[str, Any]] = json.loads(run(checkout, folder, "search", query, *options))["results"]
    return hits


def answers(checkout: Path, folder: Path, collection: str) -> list[dict[str, Any]]:
    """Return the answers to a file, and to an image of the collection, by each method."""
    given = []
    for method in METHODS:
        hits = search(checkout, folder, collection, "query.png", method)
        first = f"id:{hits[0]['image_id']}"
        again = search(checkout, folder, collection, first, method)
        for query, results in (("query.png", hits), (first, again)):
            rows = [[hit["image_id"], hit["distance"], hit["score"]] for hit in results]
            given.append({"query": query, "rerank": method, "hits": rows})
    return given


def make_archive(checkout: Path, archive: Path) -> None:
    """Index, search and create a token with the version in `checkout`; write its files to `archive`."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run(checkout, folder, "phantoms", "queries", "--count", "1", "--size", "64", "--seed", "1")
        (folder / "queries" / "phantom-000000.png").rename(folder / "query.png")
        expected = {}
        for profile, count in IMAGES.items():
            scans = f"scans-{profile}"
            run(
                checkout,
                folder,
                "phantoms",
                scans,
                "--format",
                "dicom",
                "--count",
                str(count),
                "--size",
                "64",
            )
            labels = ("--labels", f"{scans}/manifest.csv")
            run(checkout, folder, "index", scans, *labels, "--collection", profile, "--profile", profile)
            run(checkout, folder, "collection", "compact", "--collection", profile)
            expected[profile] = answers(checkout, folder, profile)
        run(checkout, folder, "token", "create", "--scope", "search", "--expires", "never", "--name", "kept")
        (folder / "answers.json").write_text(json.dumps(expected, indent=1))
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
            for name in ("answers.json", "query.png", "state", *IMAGES):
                for path in sorted((folder / name).rglob("*")) or [folder / name]:
                    if path.is_file() and path.suffix != ".lock" and "last-good" not in path.parts:
                        entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), DAY)
                        entry.compress_type = zipfile.ZIP_DEFLATED
                        target.writestr(entry, path.read_bytes())


if __name__ == "__main__":
    make_archive(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
