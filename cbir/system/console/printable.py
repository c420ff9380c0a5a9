"""Text that a terminal shows and does not obey."""

import re

import typer

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Return `text` with a sign for each character that controls a terminal: names of files may have them."""
    return CONTROL.sub("\ufffd", text)


def echo(text: object = "", *, err: bool = False) -> None:
    """Print a line for people, or to the error stream; what other programs read is printed by `typer.echo`."""
    typer.echo(printable(str(text)), err=err)
