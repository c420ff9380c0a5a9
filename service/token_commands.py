"""`cbir token ...`: who may ask the service for what."""

import json
import re
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Annotated

import typer

from cbir import settings
from cbir.errors import InvalidInput
from service.access.tokens import Scope, Token, Tokens

UNITS = {"h": "hours", "d": "days", "w": "weeks"}
NEVER = "never"
LONGEST_DAYS = 36_525

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Make, list and revoke the service's tokens."
)


class Format(StrEnum):
    """How tokens are printed."""

    text = "text"
    json = "json"


def expiry(text: str, now: datetime) -> datetime | None:
    """When a token made now ends: after 12h, 90d or 4w, at the end of a day (UTC), or never; raises InvalidInput."""
    if text == NEVER:
        return None
    span = re.fullmatch(r"([0-9]{1,5})([hdw])", text)
    try:
        if span:
            end = now + timedelta(**{UNITS[span[2]]: int(span[1])})
        else:
            end = datetime.combine(datetime.strptime(text, "%Y-%m-%d").date(), time.max, UTC)
    except ValueError as error:
        raise InvalidInput(
            f"--expires {text!r}: a span like 12h, 90d or 4w, a day like 2030-12-31, or never"
        ) from error
    if end > now + timedelta(days=LONGEST_DAYS):
        raise InvalidInput(f"--expires {text!r} is more than a hundred years away; never says so")
    return end.replace(microsecond=0)


@app.command()
def create(
    scope: Annotated[list[Scope], typer.Option(help="What it is for; may be given more than once.")],
    expires: Annotated[
        str, typer.Option(help="12h, 90d, 4w, a day like 2030-12-31 (its end, UTC), or never.")
    ] = "90d",
    name: Annotated[str, typer.Option(help="Whose it is, for the list.")] = "",
) -> None:
    """Make a token and print it, once: what is kept is a hash, from which nobody can tell it again."""
    token, text = _tokens().create(scope, expiry(expires, datetime.now(UTC)), name)
    typer.echo(text)
    typer.echo(f"{_line(token)}\nKeep it now; it is not shown again.", err=True)


@app.command("list")
def list_tokens(format: Annotated[Format, typer.Option(help="How they are printed.")] = Format.text) -> None:
    """The tokens there are and were, without what makes them valid."""
    tokens = _tokens().all().values()
    if format is Format.json:
        rows = [
            token.model_dump(mode="json", exclude={"digest"}) | {"state": token.state} for token in tokens
        ]
        typer.echo(json.dumps(rows))
        return
    typer.echo(
        "\n".join(map(_line, tokens)) or "There are no tokens; `cbir token create --scope search` makes one."
    )


@app.command()
def revoke(token_ids: Annotated[list[str], typer.Argument(metavar="ID...")]) -> None:
    """End tokens at once, and all logins with them."""
    tokens = _tokens()
    for token_id in token_ids:
        typer.echo(_line(tokens.revoke(token_id)))


def _tokens() -> Tokens:
    return Tokens(settings.load().state_folder)


def _line(token: Token) -> str:
    until = f"until {token.expires:%Y-%m-%d %H:%M} UTC" if token.expires else "for good"
    return f"{token.token_id}  {token.state:8} {','.join(token.scopes):24} {until:26} {token.name}".rstrip()
