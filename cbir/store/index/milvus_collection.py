"""Connection to a Milvus server, fields and indexes of a collection of vectors there, and its filters.

An image's attributes are whole numbers, its tokens; a scope is a boolean expression over them. A token is the digest
of an attribute or of a label, so no text reaches an expression, and none is too long.
"""

import hashlib
import logging
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cbir.errors import IndexUnavailable, InvalidInput
from cbir.gallery.vector_blocks import Floats
from cbir.store.base.reserved_labels import as_number
from cbir.store.index.port import IndexedImage, IndexScope
from cbir.store.records.filter_conditions import (
    ABSENT,
    COMPARISONS,
    PRESENT,
    Condition,
    DicomScope,
    PatientScope,
)
from cbir.system.remedies import install_command

SECONDS = 10.0  # limit of a call

QUIET = ("pymilvus", "pymilvus.milvus_client")  # loggers that write tracebacks to stderr

REASON = 200  # characters of an error of the server that are passed on


class MilvusConnection:
    """Calls of pymilvus.MilvusClient, which raise IndexUnavailable. Connects at the first call. Thread-safe.

    server: the address as messages name it.
    """

    def __init__(self, address: str, secret: str | None = None, ca_file: Path | None = None) -> None:
        """Take the address of a server.

        Parameters
        ----------
        address : str
            As milvus://user@host:port/database?tls=true; only host and port are required.
        secret : str, optional
            Password of the user; without a user in the address a token, such as user:password.
        ca_file : Path, optional
            Certificates (PEM) of the authorities that sign the server's; those that gRPC knows by default.

        Raises
        ------
        InvalidInput
            If pymilvus is not installed.
        """
        try:
            import pymilvus  # noqa: F401
        except ImportError as error:
            raise InvalidInput(f"an index in Milvus needs pymilvus: {install_command('milvus')}") from error
        for name in QUIET:  # what they say is raised too, and reported once
            logging.getLogger(name).setLevel(logging.CRITICAL)
        parts = urlsplit(address)
        self.server = f"{parts.hostname}:{parts.port}"
        secure = parse_qs(parts.query).get("tls") == ["true"]
        user = unquote(parts.username or "")
        self._options = {
            "uri": f"{'https' if secure else 'http'}://{parts.netloc.rpartition('@')[2]}",
            "token": f"{user}:{secret or ''}" if user else secret or "",
            "db_name": unquote(parts.path.strip("/")),
        }
        if secure and ca_file:
            self._options["server_pem_path"] = str(ca_file)  # which gRPC takes as the authorities
        self._client: Any = None

    def call(self, name: str, *arguments: Any, timeout: float | None = SECONDS, **options: Any) -> Any:
        """Call a method of MilvusClient.

        Parameters
        ----------
        name : str
            Name of the method.
        *arguments, **options
            Of the method.
        timeout : float, optional
            Seconds; None for work that takes as long as it takes.
        """
        with self._translated():
            if self._client is None:
                self._client = self._connect()
            return getattr(self._client, name)(*arguments, timeout=timeout, **options)

    def server_version(self) -> tuple[int, ...]:
        """Return the version of the server, such as (2, 4); () if it names none."""
        parts = re.match(r"v?(\d+)\.(\d+)", str(self.call("get_server_version")))
        return tuple(map(int, parts.groups())) if parts else ()

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connect(self) -> Any:
        from pymilvus import MilvusClient

        return MilvusClient(**self._options, timeout=SECONDS)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import grpc
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except (MilvusException, grpc.RpcError, OSError) as error:
            text = str(getattr(error, "message", error)).strip() or type(error).__name__
            reason = text.splitlines()[0][:REASON]
            raise IndexUnavailable(f"the Milvus server {self.server} cannot be used: {reason}") from error


ATTRIBUTES = ("content_hash", "patient_key", "study", "series", "instance")

DICOM = "dicom"  # attribute of an image that is a DICOM instance

NOTHING = "number < 0"

LARGEST = 1.7976931348623157e308  # finite number

LABELS_IN_MEMORY = 65_536  # tokens of labels


def image_tokens(image: IndexedImage) -> list[int]:
    """Return the tokens of the attributes and labels of an image, ascending."""
    tokens = {attribute_token(name, value) for name in ATTRIBUTES if (value := getattr(image, name))}
    if image.instance:
        tokens.add(attribute_token(DICOM))
    for key, value in image.labels.items():
        tokens |= {label_token(key), label_token(key, value)}
    return sorted(tokens)


def attribute_token(name: str, value: str = "") -> int:
    """Return the token of an attribute."""
    return _digest(f"{name}:{value}")


@lru_cache(LABELS_IN_MEMORY)
def label_token(key: str, value: str | None = None) -> int:
    """Return the token of a label, or of all labels with a key."""
    return _digest(f"label {len(key)}:{key}" if value is None else f"label {len(key)}:{key}={value}")


def number_key(key: str) -> str:
    """Return the name by which a label's number is stored."""
    return f"n{label_token(key)}"


def scope_expression(scope: IndexScope) -> str:
    """Return the expression of the images in a scope; "" for all."""
    parts = [_condition(condition) for condition in scope.where]
    parts += [_patient(patient) for patient in scope.of_patients]
    if without := list(filter(None, scope.without_patients)):
        parts.append(_without("patient_key", without))
    if scope.without_contents:
        parts.append(_without("content_hash", scope.without_contents))
    if scope.outside:
        parts.append(_outside(scope.outside))
    return " and ".join(f"({part})" for part in parts)


def _condition(condition: Condition) -> str:
    key = condition.key
    if condition.operator == PRESENT:
        return _any([label_token(key)])
    if condition.operator == ABSENT:
        return f"not {_any([label_token(key)])}"
    if condition.operator == "=":
        return _any(label_token(key, value) for value in condition.values)
    if condition.operator == "!=":
        return f"not {_any([label_token(key, condition.value)])}"
    return _comparison(f'numbers["{number_key(key)}"]', condition)


def _comparison(number: str, condition: Condition) -> str:
    """Return a comparison as a number; Milvus has no literal for infinity, beyond which no stored number is."""
    value = float(condition.value)
    if math.isfinite(value):
        return f"{number} {condition.operator} {value!r}"
    every = not math.isnan(value) and COMPARISONS[condition.operator](0.0, value)
    return f"{number} <= {LARGEST!r}" if every else NOTHING


def _patient(patient: PatientScope) -> str:
    if not patient.key:
        return NOTHING
    own = _any([attribute_token("patient_key", patient.key)])
    return f"{own} and {_without('study', [patient.besides])}" if patient.besides else own


def _outside(outside: DicomScope) -> str:
    dicom = _any([attribute_token(DICOM)])
    if not outside.study:
        return dicom
    fields = {"study": outside.study, "series": outside.series, "instance": outside.instance}
    inside = " and ".join(_any([attribute_token(name, uid)]) for name, uid in fields.items() if uid)
    return f"{dicom} and not ({inside})"


def _without(name: str, values: Iterable[str]) -> str:
    return f"not {_any(attribute_token(name, value) for value in values)}"


def _any(tokens: Iterable[int]) -> str:
    return f"array_contains_any(tokens, {list(tokens)})"


def _digest(text: str) -> int:
    """Return a digest of 63 bits, since literals have no sign."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


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
