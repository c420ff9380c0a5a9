"""Bundles the scripts and style sheets of pages when a wheel is made, by esbuild from npm.

Each page gets one script and one style sheet, named by their content, and compressed in advance. Without npm the wheel
has the modules as they are, which browsers load one by one; with CBIR_BUNDLES=required, as `make release` sets it, that
is an error.
"""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ESBUILD = "esbuild@0.28.2"
TARGET = "es2022,chrome120,firefox121,safari17"  # with top-level await
PLACE = "service/static/bundles"  # in the wheel; a checkout never has it, since it would be out of date there
SKIPPED = ("swagger-ui",)


class BundleHook(BuildHookInterface[Any]):
    """Adds the bundles to a wheel."""

    _folder: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the bundles to a temporary folder, and name them for the wheel; not for an editable installation."""
        if version == "editable":
            return
        self._folder = TemporaryDirectory(prefix="cbir-bundles-")
        output = Path(self._folder.name)
        try:
            write_bundles(Path(self.root), output)
        except (OSError, subprocess.SubprocessError) as error:
            if os.environ.get("CBIR_BUNDLES") == "required":
                raise
            self.app.display_warning(f"pages are not bundled: {error}")
            return
        for path in output.iterdir():
            build_data["force_include"][str(path)] = f"{PLACE}/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if self._folder:
            self._folder.cleanup()


def write_bundles(root: Path, output: Path) -> None:
    """Write the bundle of each page of the tree at `root`, and the manifest, into the folder `output`."""
    sys.path.insert(0, str(root))
    page_list = import_module("service.pages.page_list")
    names = sorted(path.parent.name for path in (root / "service" / "features").glob("*/feature.py"))
    features = [import_module(f"service.features.{name}.feature").FEATURE for name in names]
    manifest = {}
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        for static in [root / "service" / "static", *(root / "service" / "features").glob("*/static")]:
            ignored = shutil.ignore_patterns(*SKIPPED)
            shutil.copytree(static, tree, dirs_exist_ok=True, ignore=ignored)
        for page in page_list.PAGES:
            files = page_list.files_of(page, sorted(features, key=lambda feature: feature.name))
            bundle = [_bundle(tree, page, kind, files, output) for kind in ("css", "js")]
            manifest[page] = {"files": files, "bundle": bundle}
    (output / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _bundle(tree: Path, page: str, kind: str, files: list[str], output: Path) -> str:
    """Write the files of one kind as one, beside a compressed copy; return its name."""
    form = '@import "./{}";' if kind == "css" else 'import "./{}";'
    entry = tree / f"{page}-entry.{kind}"
    entry.write_text("\n".join(form.format(name) for name in files if name.endswith(f".{kind}")), encoding="utf-8")
    options = ["--bundle", "--minify", "--format=esm", f"--target={TARGET}", "--legal-comments=inline"]
    command = ["npm", "exec", "--yes", "--", ESBUILD, str(entry), *options, "--log-level=warning"]
    built = subprocess.run(command, cwd=tree, check=True, stdout=subprocess.PIPE).stdout
    name = f"{page}-{hashlib.sha256(built).hexdigest()[:12]}.{kind}"
    (output / name).write_bytes(built)
    (output / f"{name}.gz").write_bytes(gzip.compress(built, 9, mtime=0))
    return name
