"""Re-rankers to compare, as a user writes them: `none eprf`, `all`, `eprf:P=9:C=10`."""

import re
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.rerank.parameters import parse_value


@dataclass(frozen=True)
class Method:
    """A re-ranker with parameters.

    name: of the run, as typed. rerank: name of the re-ranker. parameters: that differ from the profile's.
    """

    name: str
    rerank: str
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """Name of its run file."""
        return re.sub(r"[^\w.=-]", "-", self.name) + ".run"


def parse_methods(text: str) -> list[Method]:
    """Parse a list separated by spaces or commas; raise InvalidInput for an unknown re-ranker."""
    entries = [rerank.names() if entry == "all" else [entry] for entry in re.split(r"[\s,]+", text) if entry]
    methods = [_method(name) for name in dict.fromkeys(chain.from_iterable(entries))]
    if not methods:
        raise InvalidInput(f"name at least one re-ranker: {', '.join(rerank.names())}, and all")
    return methods


def _method(name: str) -> Method:
    kind, *settings = name.split(":")
    parameters: dict[str, Any] = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        try:
            parameters[key] = parse_value(value)
        except ValueError:
            raise InvalidInput(
                f"'{name}': {setting} is not of the form NAME=NUMBER, as in eprf:P=9"
            ) from None
    rerank.get(kind, **parameters)
    return Method(name, kind, parameters)
