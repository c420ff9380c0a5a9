"""Sections of CHANGELOG.md; as a command, the notes of a release.

python -m release.changelog 1.0.0
"""

import re
import sys
from pathlib import Path

FILE = Path(__file__).parents[1] / "CHANGELOG.md"
HEADING = re.compile(r"^## \[([^]]+)\](?: - (\S+))?$", re.MULTILINE)


def sections(text: str) -> dict[str, tuple[str | None, str]]:
    """Return the date, None without one, and the text of each version, newest first."""
    by_version = {}
    parts = HEADING.split(text)[1:]  # version, date, text, version, ...
    for version, day, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        by_version[version] = day, body.strip()
    return by_version


if __name__ == "__main__":
    _, notes = sections(FILE.read_text()).get(sys.argv[1], (None, ""))
    if not notes:
        sys.exit(f"{FILE.name} has no section, or an empty one, for {sys.argv[1]}")
    print(notes)
