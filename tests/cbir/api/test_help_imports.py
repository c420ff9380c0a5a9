"""Modules that the help texts import: each is shown in under half a second."""

import subprocess
import sys

import typer

from cbir.api.main import app

HEAVY = {
    "PIL",
    "cv2",
    "faiss",
    "flask",
    "onnxruntime",
    "pandas",
    "pydicom",
    "rich",
    "scipy",
    "sklearn",
    "sqlalchemy",
    "torch",
}
CODE = """
import sys
from cbir.api.main import app
for words in {commands!r}:
    try:
        app([*words.split(), "--help"], standalone_mode=False)
    finally:
        loaded = {heavy!r} & sys.modules.keys()
        assert not loaded, (words, loaded)
"""


def command_names(group: typer.core.TyperGroup, words: str = "") -> list[str]:
    """Return the words of every command below `group`, groups included."""
    names = []
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        names.append(f"{words} {name}".strip())
        if isinstance(command, typer.core.TyperGroup):
            names += command_names(command, names[-1])
    return names


def test_no_help_imports_what_only_work_needs() -> None:
    commands = command_names(typer.main.get_command(app))
    assert {"search", "collection compact", "index dicomweb", "grade slit-lamp fit"} <= set(commands)
    code = CODE.format(commands=commands, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr.splitlines()[-1:]
