"""Code blocks of a Markdown page, in order."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "start.md",
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
]
FENCE = re.compile(
    r"^(?P<shown><!-- not run: .+ -->\n)?(?P<indent> *)```(?P<language>\w+)(?: title=\"(?P<file>[\w./-]+)\")?\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
INSTALL = re.compile(
    r"(git clone |cd cbir$|python3 -m venv |\. \.venv/bin/activate$|(\.venv/bin/)?pip install |make demo)"
)
SERVER = re.compile(
    r"(\w+=\S+ +)*(cbir serve|cbir annotate serve|cbir receive|make demo|/usr/sbin/Orthanc)\b"
)


class Block(NamedTuple):
    """A block that a reader runs, or writes to a file; `line` is that of its first line, from 1."""

    language: str
    file: str | None
    text: str
    line: int


def read_blocks(page: Path) -> list[Block]:
    """Return the blocks of a page that are run or written to files; those that are only shown are left out."""
    content = page.read_text(encoding="utf-8")
    return [
        Block(
            match["language"],
            match["file"],
            re.sub(f"^{match['indent']}", "", match["text"], flags=re.MULTILINE),
            content.count("\n", 0, match.start("text")) + 1,
        )
        for match in FENCE.finditer(content)
        if not match["shown"] and (match["file"] or match["language"] in ("sh", "python"))
    ]


def statements(text: str) -> list[str]:
    """Split the text of a `sh` block at its lines; a line that a backslash continues stays whole."""
    return re.findall(r"(?:[^\n]*\\\n)*[^\n]*\n", text)


def install_lines(block: Block) -> list[str]:
    """Return the lines that install something."""
    if block.language != "sh":
        return []
    return [line.strip() for line in statements(block.text) if INSTALL.match(line)]
