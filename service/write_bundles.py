"""Writes the bundles of pages: one script and one style sheet for each, by esbuild from npm.

`hatch_build.py` calls it when a wheel is made, where nothing but the standard library can be imported.
"""

import gzip
import hashlib
import json
import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from service.pages.page_list import PAGES, files_of

ESBUILD = "esbuild@0.28.2"
TARGET = "es2022,chrome120,firefox121,safari17"  # with top-level await
SKIPPED = ("swagger-ui",)


def write_bundles(root: Path, output: Path) -> None:
    """Write the bundle of each page of the tree at `root`, and the manifest, into the folder `output`."""
    names = sorted(path.parent.name for path in (root / "service" / "features").glob("*/feature.py"))
    features = [import_module(f"service.features.{name}.feature").FEATURE for name in names]
    features.sort(key=lambda feature: str(feature.name))
    manifest = {}
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        for static in [root / "service" / "static", *(root / "service" / "features").glob("*/static")]:
            ignored = shutil.ignore_patterns(*SKIPPED)
            shutil.copytree(static, tree, dirs_exist_ok=True, ignore=ignored)
        for page in PAGES:
            files = files_of(page, features)
            bundle = [_bundle(tree, page, kind, files, output) for kind in ("css", "js")]
            manifest[page] = {"files": files, "bundle": bundle}
    (output / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _bundle(tree: Path, page: str, kind: str, files: list[str], output: Path) -> str:
    """Write the files of one kind as one, beside a compressed copy; return its name."""
    form = '@import "./{}";' if kind == "css" else 'import "./{}";'
    entry = tree / f"{page}-entry.{kind}"
    entry.write_text(
        "\n".join(form.format(name) for name in files if name.endswith(f".{kind}")), encoding="utf-8"
    )
    options = ["--bundle", "--minify", "--format=esm", f"--target={TARGET}", "--legal-comments=inline"]
    command = ["npm", "exec", "--yes", "--", ESBUILD, str(entry), *options, "--log-level=warning"]
    built = subprocess.run(command, cwd=tree, check=True, stdout=subprocess.PIPE).stdout
    name = f"{page}-{hashlib.sha256(built).hexdigest()[:12]}.{kind}"
    (output / name).write_bytes(built)
    (output / f"{name}.gz").write_bytes(gzip.compress(built, 9, mtime=0))
    return name
