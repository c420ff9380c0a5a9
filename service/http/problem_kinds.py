"""All kinds of problems; docs/errors.md and the page /docs/errors are generated from them."""

import tomllib
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

PAGE = "/docs/errors"


class ProblemKind(NamedTuple):
    """Kind of problem. title: the same for all its problems. meaning, remedy: explanation for people."""

    status: HTTPStatus
    title: str
    meaning: str
    remedy: str


def _read_kinds() -> dict[str, ProblemKind]:
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {name: ProblemKind(**row | {"status": HTTPStatus(row["status"])}) for name, row in table.items()}


KINDS = _read_kinds()
# the first kind of a status represents it
BY_STATUS = {kind.status: name for name, kind in reversed(KINDS.items())}


def problem_type(name: str) -> str:
    """Return the `type` of problems of the kind `name`: the relative address of its explanation."""
    return f"{PAGE}#{name}"


def problem_kinds_markdown() -> str:
    """Return the text of docs/errors.md."""
    parts = [
        "# Errors\n",
        "Every error response is `application/problem+json` (RFC 9457): `type`, `title`, `status` and a `detail` "
        "that says what is wrong with this request. `type` is an address relative to the service that shows the "
        "text here. 429 and 503 come with `Retry-After` in seconds.\n",
    ]
    for name, kind in KINDS.items():
        parts.append(f"## {name}\n\n`{problem_type(name)}`, status {kind.status.value}: {kind.title}.\n")
        parts.append(f"{kind.meaning}\n\n{kind.remedy}\n")
    return "\n".join(parts)
