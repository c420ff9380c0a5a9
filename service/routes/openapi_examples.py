"""Examples in the OpenAPI document: whole messages are composed of the examples of their fields."""

from typing import Any

Schemas = dict[str, dict[str, Any]]


def add_examples(schemas: Schemas) -> None:
    """Add an example to every field of `schemas` that has none of its own, composed of those of its model."""
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            if "examples" not in field and (composed := compose_example(field, schemas)) is not None:
                field["examples"] = [composed]


def compose_example(schema: dict[str, Any], schemas: Schemas) -> Any:
    """Return an example of `schema`, None if the fields of its model have none; `schemas` are the models by name."""
    if "examples" in schema:
        return schema["examples"][0]
    if "$ref" in schema:
        return compose_example(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        return compose_example(schema["anyOf"][0], schemas)
    if "items" in schema:
        item = compose_example(schema["items"], schemas)
        return None if item is None else [item]
    if "properties" in schema:
        fields = schema["properties"].items()
        return {name: compose_example(field, schemas) for name, field in fields}
    return None
