"""Follow pages as a newcomer does: each in a clean clone of the last commit, with an empty environment."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from tests.docs.blocks import PAGES, ROOT, Block, install_lines, read_blocks
from tests.docs.reader import BlockFailed, Reader

PREPARE = "pip install '.[serve]'\n"  # for guides, which do not repeat it


def follow(page: Path, work: Path) -> None:
    """Run the blocks of a page, installations included; in the clone, unless the page makes its own."""
    environment, scratch, own = (work / name for name in ("environment", "scratch", "own"))
    scratch.mkdir()
    own.mkdir()
    blocks = read_blocks(page)
    lines = [line for block in blocks for line in install_lines(block)]
    cloned = any(line.startswith("git clone ") for line in lines)
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, work / "clone"], check=True)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    with Reader(
        own if cloned else work / "clone",
        scratch,
        _variables(environment, work / "clone"),
        installs=True,
        seconds=1200,
    ) as reader:
        if PREPARE.strip() not in lines:
            reader.run(Block("sh", None, PREPARE, 1))
        for block in blocks:
            print(f"{page.relative_to(ROOT)}:{block.line}", flush=True)
            reader.run(block)


def _variables(environment: Path, clone: Path) -> dict[str, str]:
    """Return variables with the empty environment first; the repository's address is answered by the clone."""
    source = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CBIR_", "XDG_"))}
    return {
        **kept,
        "PATH": f"{environment / 'bin'}{os.pathsep}{kept['PATH']}",
        "XDG_STATE_HOME": str(environment),
        "BROWSER": "true",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{clone}.insteadOf",
        "GIT_CONFIG_VALUE_0": source,
    }


def main() -> int:
    """Follow the named pages, all by default; return 1 if a block of one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    failed = 0
    for page in parser.parse_args().pages:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="cbir-docs-") as work:
            try:
                follow(page.resolve(), Path(work))
            except BlockFailed as error:
                print(error)
                failed += 1
                print(f"{page.name}: FAILED")
            else:
                print(f"{page.name}: {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
