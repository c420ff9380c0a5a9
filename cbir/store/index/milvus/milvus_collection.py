"""Fields and indexes of a Milvus collection of vectors."""

from typing import Any

from cbir.gallery.vector_blocks import Floats
from cbir.store.base.schema import as_number
from cbir.store.index.milvus.milvus_connection import MilvusConnection
from cbir.store.index.milvus.milvus_expression import image_tokens, number_key
from cbir.store.index.port import IndexedImage

FIELDS = {"number", "vector", "tokens", "numbers"}
LISTS = 1024  # inverted lists of a segment; Milvus makes fewer where it has few vectors
MOST_TOKENS = 4096  # of an image, the largest array that Milvus takes
INVERTED = (2, 5)  # version from which on every server has inverted indexes of arrays


def open_milvus_collection(connection: MilvusConnection, name: str, dimensions: int) -> bool:
    """Create the Milvus collection `name`, again if it has other fields; return whether it is new.

    Parameters
    ----------
    connection : MilvusConnection
    name : str
    dimensions : int
        Length of the vectors.
    """
    if connection.call("has_collection", name):
        described = connection.call("describe_collection", name)
        if {field["name"] for field in described["fields"]} == FIELDS:
            return False
        connection.call("drop_collection", name)  # of another version of the program: it is filled again
    _create(connection, name, dimensions)
    return True


def drop_milvus_collection(connection: MilvusConnection, name: str) -> None:
    """Delete the Milvus collection `name`, if it exists."""
    if connection.call("has_collection", name):
        connection.call("drop_collection", name)


def _create(connection: MilvusConnection, name: str, dimensions: int) -> None:
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("number", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimensions)
    schema.add_field("tokens", DataType.ARRAY, element_type=DataType.INT64, max_capacity=MOST_TOKENS)
    schema.add_field("numbers", DataType.JSON)
    connection.call("create_collection", name, schema=schema, consistency_level="Bounded")
    indexes = MilvusClient.prepare_index_params()
    indexes.add_index("vector", index_type="IVF_FLAT", metric_type="L2", params={"nlist": LISTS})
    if connection.server_version() >= INVERTED:  # without it every token is compared
        indexes.add_index("tokens", index_type="INVERTED")
    connection.call("create_index", name, indexes, timeout=60)


def milvus_row(image: IndexedImage, vector: Floats) -> dict[str, Any]:
    """Return the fields of an image; labels that are numbers are stored as such too."""
    numbers = {key: as_number(value) for key, value in image.labels.items()}
    return {
        "number": image.number,
        "vector": vector,
        "tokens": image_tokens(image),
        "numbers": {number_key(key): number for key, number in numbers.items() if number is not None},
    }
