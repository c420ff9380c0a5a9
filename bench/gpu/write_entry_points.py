"""Write a distribution with the entry points of pyproject.toml beside the packages of a folder.

The commands of `cbir` are entry points, which an installation would write; a checkout on PYTHONPATH has none.

    write_entry_points.py FOLDER
"""

import sys
import tomllib
from pathlib import Path


def main(site: Path) -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = site / f"{project['name']}-0.0.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.0\n")
    groups = {"console_scripts": project.get("scripts", {})} | project.get("entry-points", {})
    lines = [
        line
        for group, names in groups.items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in names.items()))
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
