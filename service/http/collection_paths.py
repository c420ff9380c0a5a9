"""Addresses of a collection: /v1/collections/NAME/..., and the older ones that take its name as a parameter."""

from typing import Any

from flask import Flask, g, request
from pydantic import BaseModel

from cbir.errors import InvalidInput
from service.client.collection_messages import COLLECTION_RULE, path_in_collection
from service.http import operations
from service.http.operations import Operation

PARAMETER = "collection"
OLDER = "cbir-older-addresses"  # key in app.extensions


def install(app: Flask) -> None:
    """Add the address below /v1/collections/NAME of each operation on a collection; all blueprints are registered."""
    older = app.extensions[OLDER] = dict[str, str]()
    for rule in list(app.url_map.iter_rules()):
        operation = operations.operation_of(app.view_functions[rule.endpoint])
        if operation and is_of_collection(operation):
            path = path_in_collection(rule.rule)
            older[path] = rule.rule
            app.add_url_rule(
                path, rule.endpoint, methods=sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
            )
    app.url_value_preprocessor(_take_collection)


def is_of_collection(operation: Operation) -> bool:
    """Return whether an operation has a parameter that names a collection, in place of which its address may."""
    return operation.collection_in_path and names_collection(operation)


def names_collection(operation: Operation) -> bool:
    """Return whether an operation has a parameter that names a collection."""
    return any(
        PARAMETER in model.model_fields for model in (operation.query, *operation.body_models) if model
    )


def older_addresses(app: Flask) -> dict[str, str]:
    """Return the older URL rule, without a collection, by the rule below /v1/collections/NAME."""
    older: dict[str, str] = app.extensions.get(OLDER, {})
    return older


def add_collection(model: type[BaseModel], values: dict[str, Any]) -> None:
    """Add the collection that the address names to the parameters of a request; raises InvalidInput if both do."""
    name = collection_of_address()
    if name is not None and PARAMETER in model.model_fields:
        if PARAMETER in values:
            raise InvalidInput(f"{PARAMETER}: the address names it already; leave the parameter out")
        values[PARAMETER] = name


def collection_of_address() -> str | None:
    """Return the name of the collection in the address of the request, None for addresses without one."""
    name: str | None = g.get("collection_of_address")
    return name


def _take_collection(_endpoint: str | None, values: dict[str, Any] | None) -> None:
    if values and request.url_rule and request.url_rule.rule.startswith(COLLECTION_RULE):
        g.collection_of_address = values.pop(PARAMETER)
