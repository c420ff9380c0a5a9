"""Commands in an environment without extras: their help works, and what lacks a package names the extra in a line."""

import pytest

from cbir.system.remedies import missing_package
from tests.bare_environment import run_bare

HELP = """
import contextlib, io, sys
import typer.core, typer.main
from cbir.api.main import app, main

def paths(command, path):
    if not isinstance(command, typer.core.TyperGroup):
        yield path
        return
    for name in command.list_commands(None):
        yield from paths(command.get_command(None, name), [*path, name])

for path in paths(typer.main.get_command(app), []):
    sys.argv = ["cbir", *path, "--help"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main()
    assert printed.getvalue().startswith("Usage: cbir"), path
    print(*path)
"""


@pytest.mark.slow
def test_the_help_of_every_command():
    printed, _ = run_bare("-c", HELP)
    assert {"search", "receive", "index dicomweb", "train embedding", "annotate serve"} <= set(
        printed.splitlines()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["receive", "--collection", "x"], "pacs"),
        (["index", "dicomweb", "http://127.0.0.1:1/dicom-web", "--collection", "x"], "pacs"),
        (["evaluate", "run", "--collection", "x", "--out", "y"], "evaluate"),
        (["train", "embedding", "--data", "x.csv", "--out", "y"], "deep"),
        (["annotate", "serve", "--collection", "x"], "deep,serve"),
        (["serve", "--collection", "x"], "serve"),
        (["admin", "worker", "--collection", "x"], "serve"),
    ],
)
def test_a_command_names_its_extra_in_one_line(arguments, extra, tmp_path):
    _, error = run_bare("-c", "from cbir.api.main import main; main()", *arguments, code=2)
    (line,) = error.splitlines()
    assert f"pip install '.[{extra}]'" in line


@pytest.mark.slow
def test_the_client_names_its_extra():
    script = """
try:
    from service.client import Client
except ImportError as error:
    print(error)
"""
    assert run_bare("-c", script)[0].startswith("this needs httpx: pip install '.[client]'")


@pytest.mark.slow
def test_the_python_api_without_extras():
    script = """
import pydoc
import cbir

print("image in, ranked cases out" in pydoc.render_doc(cbir))
try:
    cbir.evaluate("collection")
except cbir.CbirError as error:
    print(error)
"""
    helped, error = run_bare("-c", script)[0].splitlines()
    assert helped == "True"
    assert error.startswith("an evaluation needs ir_measures: pip install '.[evaluate]'")


def test_a_module_of_no_extra_is_a_bug():
    assert missing_package(ModuleNotFoundError("No module named 'cbir.x'", name="cbir.x")) is None
    assert missing_package(ModuleNotFoundError("no name")) is None
