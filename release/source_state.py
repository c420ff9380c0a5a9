"""Check that a checkout can be released: nothing uncommitted; version, changelog, API description and tag agree.

python -m release.source_state             # --tagged: the commit must have its tag
"""

import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

from release.changelog import sections

ROOT = Path(__file__).parents[1]


def read_version(root: Path) -> str:
    """Return the version that cbir/__init__.py states."""
    statement = re.search(
        r'^__version__ = "(.+)"$', (root / "cbir" / "__init__.py").read_text(), re.MULTILINE
    )
    if not statement:
        raise SystemExit("cbir/__init__.py states no __version__")
    return statement[1]


def problems(root: Path, tagged: bool = False) -> list[str]:
    """Return what prevents a release of the checkout in `root`, a line each.

    tagged: a missing tag is a problem too.
    """
    version = read_version(root)
    return [*_tree_problems(root), *_version_problems(root, version), *_tag_problems(root, version, tagged)]


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=root, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def _tree_problems(root: Path) -> list[str]:
    changed = _git(root, "status", "--porcelain").splitlines()
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    names = ", ".join(line[2:].strip() for line in changed[:3])
    return [f"not committed: {names}{more}"] if changed else []


def _version_problems(root: Path, version: str) -> list[str]:
    lines = []
    newest, (day, notes) = next(
        iter(sections((root / "CHANGELOG.md").read_text()).items()), ("nothing", (None, ""))
    )
    if newest != version:
        lines.append(f"CHANGELOG.md begins with {newest}, cbir/__init__.py states {version}")
    elif not notes:
        lines.append(f"CHANGELOG.md has nothing about {version}")
    elif not _is_date(day):
        lines.append(f"CHANGELOG.md has no date for {version}, as in: ## [{version}] - {date.today()}")
    described = json.loads((root / "docs" / "openapi.json").read_text())["info"]["version"]
    if described != version:
        lines.append(f"docs/openapi.json describes {described}: python -m service.write_docs docs")
    return lines


def _is_date(text: str | None) -> bool:
    try:
        return text is not None and date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _tag_problems(root: Path, version: str, tagged: bool) -> list[str]:
    tag = f"v{version}"
    of_commit = [
        name for name in _git(root, "tag", "--points-at", "HEAD").splitlines() if name.startswith("v")
    ]
    if of_commit and of_commit != [tag]:
        return [f"the commit has the tag {', '.join(of_commit)}, not {tag} alone"]
    if not of_commit and tag in _git(root, "tag").splitlines():
        return [f"the tag {tag} is on another commit: that version is released, state a new one"]
    return [f"the commit has no tag {tag}"] if tagged and not of_commit else []


if __name__ == "__main__":
    if lines := problems(ROOT, "--tagged" in sys.argv[1:]):
        sys.exit("\n".join(lines))
    print(f"cbir {read_version(ROOT)} can be released")
