"""The code blocks of README, of the start page and of the guides run as they are printed."""

import os
import re
import shlex
import socket
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, Block, install_lines, read_blocks
from tests.docs.reader import BlockFailed, Reader
from tests.indexer.orthanc import namespace, why_not

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
names = [str(page.relative_to(ROOT)) for page in PAGES]


def environment(folder: Path, port: int) -> dict[str, str]:
    """Return variables for a reader whose home is `folder`: this environment's commands, no settings, no browser."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CBIR_", "XDG_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])
    return {**kept, "PATH": path, "HOME": str(folder), "BROWSER": "true", "CBIR_PORT": str(port)}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def read(blocks: list[Block], folder: Path, *, seconds: float = 240, within: Sequence[str] = ()) -> list[str]:
    """Run blocks in order in an empty folder; a service on port 8000 gets a free one. Return what each printed."""
    port = free_port()
    for name in ("page", "scratch"):
        (folder / name).mkdir()
    with Reader(
        folder / "page",
        folder / "scratch",
        environment(folder, port),
        installs=False,
        seconds=seconds,
        within=within,
    ) as reader:
        return [
            reader.run(block._replace(text=re.sub(r"(?<=127\.0\.0\.1:)8000\b", str(port), block.text)))
            for block in blocks
        ]


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_the_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    blocks = read_blocks(page)
    if not any("/usr/sbin/Orthanc" in block.text for block in blocks):
        read(blocks, tmp_path)
    elif reason := why_not():
        pytest.skip(reason)
    else:
        with namespace() as network:
            read(blocks, tmp_path, within=network.command())


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_installations_name_what_exists(page: Path) -> None:
    for line in [line for block in read_blocks(page) for line in install_lines(block)]:
        command, *words = shlex.split(line, comments=True)
        if command == "git":
            assert words == ["clone", PROJECT["urls"]["Source"]]
        elif "pip" in command:
            assert words[0] == "install"
            for requirement in words[1:]:
                extras = re.fullmatch(r"\.(?:\[([\w,]+)\])?", requirement)[1]
                assert set((extras or "").split(",")) <= {"", *PROJECT["optional-dependencies"]}


def test_every_extra_is_described() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = page.split("| extra | for |\n")[1].split("\n\n")[0]
    names = {name for row in table.splitlines() for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert names == set(PROJECT["optional-dependencies"]) - {"docs", "test", "unit"}


def test_a_page_shares_one_shell_and_one_interpreter(tmp_path: Path) -> None:
    printed = read(
        [
            Block("sh", None, "pip install nothing-of-this-name\nmkdir inner\ncd inner\nWORD=hello\n", 1),
            Block("csv", "labels.csv", "path,label\n", 2),
            Block("python", None, "import os\ncontent = open('labels.csv').read()\n", 3),
            Block("python", None, "print(content, os.path.basename(os.getcwd()))\n", 4),
            Block("sh", None, "echo $WORD \\\n  again\n", 5),
        ],
        tmp_path,
    )
    assert printed == ["", "", "", "path,label\n inner\n", "hello again\n"]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("sh", "false\ntrue\n"),
        ("sh", "cbir search missing.png --collection missing | cat\n"),
        ("sh", "cbir serve --collection missing\n"),
        ("sh", "python3 -c 'raise ValueError(1)' || true\n"),
        ("sh", "sleep 60\n"),
        ("python", "raise ValueError(1)\n"),
        ("python", "print(1\n"),
        ("python", "raise SystemExit(2)\n"),
    ],
)
def test_a_block_that_fails_is_reported(language: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(BlockFailed, match=re.escape(text.strip())):
        read([Block(language, None, text, 1)], tmp_path, seconds=3 if "sleep" in text else 60)


def test_readme_is_short_and_repeats_figures_of_the_pages_that_it_links() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.split()) <= 600
    rows = re.findall(r"^\| \[.+?\]\(([\w/.]+)(?:#[\w-]+)?\).* \| (.+) \|$", readme, re.MULTILINE)
    assert len(rows) == 3
    for page, figures in rows:
        measured = [float(number) for number in re.findall(r"\d+\.?\d*", (ROOT / page).read_text())]
        for figure in re.findall(r"\d+\.?\d*", figures):
            decimals = len(figure.partition(".")[2])
            assert float(figure) in {round(number, decimals) for number in measured}
