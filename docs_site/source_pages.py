"""Pages of the site that lie outside docs/, and links between all of them."""

import json
import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[1]
SOURCE_URL = "https://github.com/cbir-contributors/cbir"
OUTSIDE = {
    "README.md": "about.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}

CODE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$|`(?:[^`\n]|\n(?!\n))+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^()\s]+)(?=(?: \"[^\"]*\")?\))|(?<=\]: )(\S+)$", re.MULTILINE)


def outside_pages() -> dict[str, str]:
    """Return the pages outside docs/: path in the repository to path in the site."""
    results = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "bench" / "results").glob("*.md"))
    return OUTSIDE | {path: path.removeprefix("bench/") for path in results}


def notebook_pages() -> dict[str, str]:
    """Return the notebooks of docs/: path in the repository to path in the site."""
    notebooks = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
    return {
        path.relative_to(ROOT).as_posix(): path.relative_to(ROOT / "docs").with_suffix(".md").as_posix()
        for path in notebooks
    }


def notebook_markdown(path: Path) -> str:
    """Return the text and code of a notebook as Markdown, without outputs."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    source = path.relative_to(ROOT).as_posix()
    return "\n\n".join([*parts, f"[This page as a notebook]({SOURCE_URL}/blob/main/{source})."]) + "\n"


def rewrite_links(
    text: str, source: str, site_path: str, pages: dict[str, str], warn: Callable[[str], None]
) -> str:
    """Make the links of a page lead to pages of the site, or to the repository where the target is no page.

    Parameters
    ----------
    text : str
        Markdown of the page.
    source : str
        Path of the page in the repository, which its relative links start from.
    site_path : str
        Path of the page in the site.
    pages : dict of str to str
        Paths in the repository of all files of the site, with their paths in the site.
    warn : callable
        Called with a message for each link that leads nowhere, or is no valid address.
    """

    def rewrite(match: re.Match[str]) -> str:
        target = match.group()
        address = urlsplit(target)
        if address.scheme:
            if not ((address.scheme in ("http", "https") and address.hostname) or address.scheme == "mailto"):
                warn(f"{source}: {target} is no valid address")
            return target
        if not address.path:
            return target
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), address.path))
        anchor = f"#{address.fragment}" if address.fragment else ""
        if path in pages:
            return posixpath.relpath(pages[path], posixpath.dirname(site_path) or ".") + anchor
        if path.startswith("..") or not (ROOT / path).exists():
            warn(f"{source}: {target} leads nowhere")
            return target
        return f"{SOURCE_URL}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}{anchor}"

    parts, last = [], 0
    for code in CODE.finditer(text):
        parts += [LINK.sub(rewrite, text[last : code.start()]), code.group()]
        last = code.end()
    return "".join([*parts, LINK.sub(rewrite, text[last:])])
