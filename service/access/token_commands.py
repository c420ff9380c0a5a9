"""`cbir admin token`: create, list and revoke access tokens of the service."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cbir import settings
from cbir.system.access_rights import Scope
from cbir.system.console import OutputFormat, echo

if TYPE_CHECKING:
    from service.access.token_list import Token, TokenStorage

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Create, list and revoke the service's access tokens."
)


@app.command()
def create(
    scope: Annotated[list[Scope], typer.Option(help="Permission of the token; may be given several times.")],
    expires: Annotated[
        str,
        typer.Option(help="Expiry: 12h, 90d, 4w, a day like 2030-12-31 (until its end, UTC), or never."),
    ] = "90d",
    name: Annotated[str, typer.Option(help="Owner or purpose of the token, shown in the list.")] = "",
    collection: Annotated[
        list[str] | None, typer.Option(help="Name of a collection that it may use [all]. Repeatable.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="Condition of the images that it may see [all]. Repeatable."),
    ] = None,
) -> None:
    """Create a token and print it once. Only its hash is stored, so it cannot be shown again."""
    from service.access.token_list import parse_expiry

    expiry = parse_expiry(expires, datetime.now(UTC))
    token, text = _store().create(scope, expiry, name, collection or (), where or ())
    echo(text)
    echo(f"{_line(token)}\nStore it now; it is not shown again.", err=True)


@app.command("list")
def list_tokens(
    format: Annotated[OutputFormat, typer.Option(help="Output format.")] = OutputFormat.text,
) -> None:
    """List all tokens, valid or not, without their secrets."""
    tokens = _store().all().values()
    if format is OutputFormat.json:
        rows = [
            token.model_dump(mode="json", exclude={"digest"}) | {"state": token.state} for token in tokens
        ]
        typer.echo(json.dumps(rows))
        return
    echo(
        "\n".join(map(_line, tokens))
        or "There are no tokens; create one with `cbir admin token create --scope search`."
    )


@app.command()
def revoke(
    token_ids: Annotated[list[str], typer.Argument(metavar="ID", help="Ids of the tokens to revoke.")],
    with_made: Annotated[
        bool, typer.Option("--with-made", help="Also the tokens that they have made, and so on.")
    ] = False,
) -> None:
    """Revoke tokens at once, and end all logins made with them. Tokens that they have made stay valid by default."""
    store = _store()
    revoked = [token for token_id in token_ids for token in store.revoke(token_id, with_made=with_made)]
    for token in revoked:
        echo(_line(token))
    tokens = store.all()
    from service.access.token_list import made_tokens

    names = dict.fromkeys(name for token in revoked for name in made_tokens(tokens, token.token_id))
    if valid := [name for name in names if tokens[name].state == "valid"]:
        echo(f"still valid, made by these: {' '.join(valid)}; --with-made revokes them too", err=True)


def _store() -> "TokenStorage":
    from service.access.token_stores import open_tokens
    from service.state.database import open_state

    active = settings.load()
    return open_tokens(active, open_state(active))


def _line(token: "Token") -> str:
    expiry = f"until {token.expires:%Y-%m-%d %H:%M} UTC" if token.expires else "no expiry"
    limits = [f"collection {name}" for name in token.collections] + [f"where {text}" for text in token.where]
    if token.made_by:
        limits.append(f"made by {token.made_by}")
    line = f"{token.token_id}  {token.state:8} {','.join(token.scopes):24} {expiry:26} {token.name}".rstrip()
    return f"{line}  [{', '.join(limits)}]" if limits else line
