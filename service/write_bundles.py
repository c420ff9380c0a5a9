"""Writes the bundles of pages: one script and one style sheet for each, by esbuild from npm.

`hatch_build.py` calls it when a wheel is made, where nothing but the standard library can be imported.
"""

import gzip
import json
import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from service.pages.page_list import files_by_page, files_of_page

ESBUILD = "esbuild@0.28.2"
TARGET = "es2022,chrome120,firefox121,safari17"  # with top-level await
SKIPPED = ("swagger-ui",)


def write_bundles(root: Path, output: Path) -> None:
    """Write the bundle of each page of the tree at `root`, and the manifest, into the folder `output`."""
    names = sorted(path.parent.name for path in (root / "service" / "features").glob("*/__init__.py"))
    features = [import_module(f"service.features.{name}").FEATURE for name in names]
    features.sort(key=lambda feature: str(feature.name))
    manifest = {}
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        for static in [root / "service" / "static", *(root / "service" / "features").glob("*/static")]:
            ignored = shutil.ignore_patterns(*SKIPPED)
            shutil.copytree(static, tree, dirs_exist_ok=True, ignore=ignored)
        for page in files_by_page(features):
            files = files_of_page(page, features)
            bundle = [*_style(tree, page, files, output), *_script(tree, page, files, output)]
            manifest[page] = {"files": files, "bundle": bundle}
    (output / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _style(tree: Path, page: str, files: list[str], output: Path) -> list[str]:
    """Write the style sheets of a page as one; return its name."""
    entry = tree / f"{page}.css"
    entry.write_text(
        "".join(f'@import "./{name}";\n' for name in files if name.endswith(".css")), encoding="utf-8"
    )
    return _run(entry, output)[:1]


def _script(tree: Path, page: str, files: list[str], output: Path) -> list[str]:
    """Write the scripts of a page: parts that are there from the start, and its own last; return their names."""
    entry = tree / f"{page}.js"
    entry.write_text(
        "".join(f'import "./{name}";\n' for name in files if name.endswith(".js")), encoding="utf-8"
    )
    return _run(entry, output)[::-1]


def _run(entry: Path, output: Path) -> list[str]:
    """Bundle a file; return the names of what it became and of the parts that it imports, the file's own first.

    Parts that scripts import when they use them are written too.
    """
    facts = entry.with_suffix(".json")
    options = ["--bundle", "--minify", "--format=esm", f"--target={TARGET}", "--legal-comments=inline"]
    names = [f"--outdir={output}", "--entry-names=[name]-[hash]", "--chunk-names=part-[hash]", "--splitting"]
    command = ["npm", "exec", "--yes", "--", ESBUILD, str(entry), *options, *names, f"--metafile={facts}"]
    subprocess.run([*command, "--log-level=warning"], cwd=entry.parent, check=True, stdout=subprocess.DEVNULL)
    built = {
        Path(path).name: each
        for path, each in json.loads(facts.read_text(encoding="utf-8"))["outputs"].items()
    }
    for name in built:
        data = (output / name).read_bytes()
        (output / f"{name}.gz").write_bytes(gzip.compress(data, 9, mtime=0))
    (bundle,) = (name for name, each in built.items() if Path(each.get("entryPoint", "")).name == entry.name)
    parts = [bundle]
    for name in parts:  # grows
        imported = [
            Path(each["path"]).name for each in built[name]["imports"] if each["kind"] == "import-statement"
        ]
        parts += [part for part in imported if part not in parts]
    return parts
