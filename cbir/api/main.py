"""Command line `cbir`."""

import sys
from pathlib import Path
from typing import Any

import typer

import cbir
from cbir.errors import CbirError, access_denied
from cbir.system.console import echo
from cbir.system.lazy_commands import PanelCommands, command_group
from cbir.system.remedies import missing_package

INTERRUPTED = 130  # exit code, as shells report a program that Ctrl-C has ended


class InterruptibleCommands(PanelCommands):
    """Ends in one line after Ctrl-C."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; what it has written so far is complete, since files are replaced as a whole."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            echo("cbir: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=InterruptibleCommands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(enabled: bool) -> None:
    if enabled:
        echo(cbir.__version__)
        raise typer.Exit


@app.callback()
def _cbir(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Content-based retrieval of medical images: index, search, evaluate and serve. Not a medical device."""


admin = command_group(
    "cbir.commands.admin", "Look after the service: tokens, state, logs, jobs, other sites and settings."
)


def error_advice(error: Exception) -> str | None:
    """Describe a system or database error in one line; return None for a bug in cbir."""
    if isinstance(error, ModuleNotFoundError):
        return missing_package(error)
    if isinstance(error, PermissionError) and error.filename:
        return str(access_denied(error, Path(), writing=True))
    if isinstance(error, OSError):
        return f"{error.filename or 'the system'}: {error.strerror or error}"
    if type(error).__module__.partition(".")[0] in ("sqlalchemy", "sqlite3"):
        return "the collection's database is damaged or busy; run `cbir collection verify` for details"
    if isinstance(error, UnicodeEncodeError):
        return "a name on the command line is not UTF-8; rename it"
    return None


def main() -> None:
    """Run the command line; print an expected error in one line and exit with code 2."""
    try:
        app()
    except CbirError as error:
        echo(f"cbir: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output, for instance `head`, has closed it
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        advice = error_advice(error)
        if advice is None:
            raise
        echo(f"cbir: {advice}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
