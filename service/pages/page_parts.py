"""Files that features bring for pages: templates, static files, and parts of the core's pages."""

from collections.abc import Iterator
from pathlib import Path

from flask import Blueprint, Flask

from cbir.system.features import Feature, FeatureUnusable, features

SLOTS = frozenset(  # places in pages of the core that a feature's template can fill
    {
        "search.head",
        "search.actions",
        "search.switches",
        "search.hints",
        "search.judgements",
        "search.questions",
        "search.results",
        "search.keys",
        "search.dialogs",
        "comparison.switches",
        "comparison.results",
        "gallery.head",
        "gallery.selection",
    }
)
STATIC, TEMPLATES = "static", "templates"
FEATURE_FILES = "cbir-feature-files"  # key in app.extensions: folder by address below /static


def install_files(app: Flask) -> None:
    """Let `app` serve the files of features; raises FeatureUnusable if two files have one address or name."""
    package = Path(app.root_path)
    static = dict.fromkeys(_files_below(package / STATIC), package / STATIC)
    templates = dict.fromkeys(_files_below(package / TEMPLATES), package / TEMPLATES)
    parts: dict[str, list[str]] = {slot: [] for slot in SLOTS}
    for feature in features():
        if feature.package:
            folder = Path(feature.load(feature.package).__file__).parent
            _add_files(feature, folder / STATIC, static)
            _add_files(feature, folder / TEMPLATES, templates)
            files = Blueprint(f"{feature.name}-files", feature.package, template_folder=TEMPLATES)
            app.register_blueprint(files)
        for slot, template in feature.page_parts.items():
            if slot not in SLOTS or template not in templates:
                raise FeatureUnusable(
                    f"feature {feature.name}: there is no slot {slot}, or no template {template}"
                )
            parts[slot].append(template)
    app.extensions[FEATURE_FILES] = {name: at for name, at in static.items() if at != package / STATIC}
    app.context_processor(lambda: {"page_parts": parts.__getitem__})


def _files_below(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.relative_to(folder).as_posix()


def _add_files(feature: Feature, folder: Path, folders: dict[str, Path]) -> None:
    for name in _files_below(folder):
        if folders.setdefault(name, folder) != folder:
            raise FeatureUnusable(f"feature {feature.name}: there is another file {folder.name}/{name}")
