"""The Dockerfile's instructions, and the files that a build sees."""

import re
import shutil
from pathlib import Path

from tests.project.sources import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def lines(text: str, instruction: str) -> list[str]:
    """The arguments of every such instruction of a Dockerfile, continued lines joined."""
    joined = text.replace("\\\n", " ")
    return re.findall(rf"^{instruction} (.*)$", joined, re.MULTILINE)


def context(target: Path) -> Path:
    """Copy what .dockerignore lets through, as a build would see it."""
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")]
    for name in allowed:
        copied = target / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copied, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copied)
    return target
