"""The command `cbir`: subcommands come from the entry-point group `cbir.commands` and load when called."""

import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
import typer.core
import typer.main

import cbir
from cbir.errors import CbirError

GROUP = "cbir.commands"


class LazyCommands(typer.core.TyperGroup):
    """Imports a subcommand only when it is run or its help is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(entry_points(group=GROUP).names)

    def get_command(self, ctx: Any, name: str) -> Any:
        found = entry_points(group=GROUP, name=name)
        return _load(next(iter(found))) if found else None


def _load(entry: EntryPoint) -> Any:
    """A Typer app as a group, a plain function as one command."""
    loaded = entry.load()
    if isinstance(loaded, typer.Typer):
        command = typer.main.get_command(loaded)
    else:
        app = typer.Typer(add_completion=False)
        app.command()(loaded)
        command = typer.main.get_command(app)
    command.name = entry.name
    return command


app = typer.Typer(
    cls=LazyCommands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(cbir.__version__)
        raise typer.Exit


@app.callback()
def _cbir(version: bool = typer.Option(False, "--version", callback=_version, is_eager=True)) -> None:
    """Where have we seen this before? Retrieval of medical images by their pixels. Not a medical device."""


def _told(error: Exception) -> str | None:
    """What a person can do about an error of the system or of the database; None for a fault of ours."""
    if isinstance(error, OSError):
        return f"{error.filename or 'the system'}: {error.strerror or error}"
    if type(error).__module__.partition(".")[0] in ("sqlalchemy", "sqlite3"):
        return "the collection's database is damaged or busy; `cbir collection verify` says more"
    if isinstance(error, UnicodeEncodeError):
        return "a name on the command line is not UTF-8; rename it"
    return None


def main() -> None:
    """Run the command line; an expected error is one line and exit code 2, never a traceback."""
    try:
        app()
    except CbirError as error:
        typer.echo(f"cbir: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output, `head` for instance, has seen enough
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        told = _told(error)
        if told is None:
            raise
        typer.echo(f"cbir: {told}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
