"""Fields of a Milvus collection of vectors: attributes and labels, as filters compare them."""

from typing import Any

from cbir.gallery.vector_blocks import Floats
from cbir.store.schema import as_number
from cbir.vector_index.milvus_connection import MilvusConnection
from cbir.vector_index.milvus_expression import LONGEST, stored_text
from cbir.vector_index.port import IndexedImage

TEXTS = ("content_hash", "patient_key", "study", "series", "instance")
LINKS = 16  # of an image in the graph, and twice as many on the lowest level (M)
BUILD_WIDTH = 200  # images that building compares at a time (efConstruction)


def create_milvus_collection(connection: MilvusConnection, name: str, dimensions: int) -> None:
    """Create the collection `name` by `connection`, of vectors of `dimensions` values, with a graph, and load it."""
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("number", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimensions)
    for text in TEXTS:
        schema.add_field(text, DataType.VARCHAR, max_length=LONGEST)
    schema.add_field("labels", DataType.JSON)
    schema.add_field("label_numbers", DataType.JSON)
    connection.call("create_collection", name, schema=schema, consistency_level="Bounded")
    graph = MilvusClient.prepare_index_params()
    parameters = {"M": LINKS, "efConstruction": BUILD_WIDTH}
    graph.add_index("vector", index_type="HNSW", metric_type="L2", params=parameters)
    connection.call("create_index", name, graph)
    connection.call("load_collection", name, timeout=60)


def milvus_row(image: IndexedImage, vector: Floats) -> dict[str, Any]:
    """Return the fields of an image; labels that are numbers are stored as such too."""
    numbers = {key: as_number(value) for key, value in image.labels.items()}
    return {
        "number": image.number,
        "vector": vector,
        **{name: stored_text(getattr(image, name)) for name in TEXTS},
        "labels": {stored_text(key): stored_text(value) for key, value in image.labels.items()},
        "label_numbers": {stored_text(key): number for key, number in numbers.items() if number is not None},
    }
