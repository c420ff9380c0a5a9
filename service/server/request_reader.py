"""Receive one request in pieces: its head for gunicorn's parser, then its body."""

from enum import Enum
from typing import Any

from gunicorn.http.body import ChunkedReader, LengthReader
from gunicorn.http.errors import LimitRequestHeaders, NoMoreData, UnsupportedTransferCoding
from gunicorn.http.message import Request
from gunicorn.http.parser import RequestParser

from service.server.chunk_scanner import ChunkScanner
from service.server.client_connection import ClientConnection, Stage
from service.server.request_bytes import RequestBytes

MAX_HEAD_BYTES = 64 * 2**10
HEAD_ENDS = (b"\r\n\r\n", b"\n\n")  # gunicorn's parser refuses the second
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Progress(Enum):
    """Result of receiving a piece."""

    incomplete = 1
    complete = 2
    too_many_chunks = 3


def read_request_head(connection: ClientConnection, config: Any, max_body: int) -> Progress:
    """Parse the head in `connection.received` once it is complete, and take what there is of the body.

    Parameters
    ----------
    connection : ClientConnection
        Its `request` is set.
    config : gunicorn.config.Config
        Limits of the parser.
    max_body : int
        Bytes of the largest body allowed. The app refuses larger ones without having received them.

    Raises
    ------
    Exception
        An error of gunicorn's parser, for a head that is malformed or too long.
    """
    received = connection.received
    start = max(0, connection.searched_bytes - 3)
    ends = [end + len(mark) for mark in HEAD_ENDS if (end := received.find(mark, start)) >= 0]
    connection.searched_bytes = len(received)
    if not ends and len(received) <= MAX_HEAD_BYTES:
        return Progress.incomplete
    length = min(ends, default=len(received))
    head, rest = bytes(received[:length]), bytes(received[length:])
    received.clear()
    connection.searched_bytes = 0
    request_bytes = RequestBytes(head)
    try:
        request: Request = next(RequestParser(config, request_bytes, connection.client))
    except (NoMoreData, StopIteration):
        raise LimitRequestHeaders("max buffer headers") from None
    codings = [value.strip().lower() for name, value in request.headers if name == "TRANSFER-ENCODING"]
    if codings not in ([], ["chunked"]):  # gunicorn's parser accepts others, and does not decode them
        raise UnsupportedTransferCoding(", ".join(codings))
    connection.request, connection.request_bytes = request, request_bytes
    reader = request.body.reader
    if isinstance(reader, ChunkedReader):
        connection.chunks = ChunkScanner()
    elif isinstance(reader, LengthReader):
        connection.missing_bytes = reader.length
    if connection.missing_bytes > max_body:
        request_bytes.cut = True
        return Progress.complete
    if connection.chunks is None and not connection.missing_bytes:
        received += rest
        return Progress.complete
    if request._expected_100_continue and not rest:
        connection.send_interim(CONTINUE)
    connection.enter(Stage.body)
    return take_body(connection, rest, max_body)


def take_body(connection: ClientConnection, data: bytes, max_body: int) -> Progress:
    """Add `data` to the body of at most `max_body` bytes; what follows the body is kept in `connection.received`."""
    assert connection.request_bytes
    chunks = connection.chunks
    if chunks is None:
        length = min(connection.missing_bytes, len(data))
        connection.missing_bytes -= length
        complete = not connection.missing_bytes
    else:
        length = chunks.feed(data)
        complete = chunks.ended
        if chunks.too_many_chunks:
            return Progress.too_many_chunks
    connection.request_bytes.append(data[:length])
    if complete:
        connection.received += data[length:]
    elif connection.request_bytes.size > max_body + MAX_HEAD_BYTES and chunks is not None:
        connection.request_bytes.cut = complete = True
    return Progress.complete if complete else Progress.incomplete
