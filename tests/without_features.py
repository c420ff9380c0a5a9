"""Metadata of cbir without its features, which hide those of the installation where their folder comes first.

PYTHONPATH=$(python -m tests.without_features) runs commands and tests as if no feature were installed.
"""

from importlib.metadata import distribution
from pathlib import Path
from tempfile import mkdtemp

from cbir.system.features import GROUP

PACKAGE = "service.features."


def write_metadata(folder: Path) -> None:
    """Write metadata without features, and without their commands, into a folder for sys.path."""
    installed = distribution("cbir")
    metadata = folder / f"cbir-{installed.version}.dist-info"
    metadata.mkdir(parents=True)
    lines = [
        f"[{entry.group}]\n{entry.name} = {entry.value}\n"
        for entry in installed.entry_points
        if entry.group != GROUP and not entry.value.startswith(PACKAGE)
    ]
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: cbir\nVersion: {installed.version}\n")
    (metadata / "entry_points.txt").write_text("".join(lines))


if __name__ == "__main__":
    place = Path(mkdtemp())
    write_metadata(place)
    print(place)
