"""The end of a chunked body is found however its bytes arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.server.client_connection import FREE_CHUNKS, MAX_LINE_BYTES, ChunkScanner


def chunked(pieces: list[bytes], trailer: bytes = b"") -> bytes:
    """A body in the chunked transfer coding."""
    chunks = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece)
    return chunks + b"0\r\n" + trailer + b"\r\n"


def scan(data: bytes, step: int) -> tuple[ChunkScanner, int]:
    """The scanner after `step` bytes at a time, and how many bytes it took for the body."""
    scanner, taken = ChunkScanner(), 0
    for start in range(0, len(data), step):
        taken += scanner.feed(data[start : start + step])
        if scanner.ended:
            break
    return scanner, taken


@given(
    st.lists(st.binary(max_size=40), max_size=6),
    st.sampled_from([b"", b"Name: value\r\n", b"A: 1\r\nB: 2\r\n"]),
    st.integers(1, 60),
    st.binary(max_size=20),
)
def test_the_end_is_found(pieces: list[bytes], trailer: bytes, step: int, rest: bytes) -> None:
    body = chunked(pieces, trailer)
    scanner, taken = scan(body + rest, step)
    assert scanner.ended
    assert not scanner.malformed
    assert taken == len(body)


@given(st.lists(st.binary(max_size=40), max_size=4), st.integers(1, 60), st.data())
def test_a_body_without_its_end_is_not_complete(pieces: list[bytes], step: int, data: st.DataObject) -> None:
    body = chunked(pieces)
    length = data.draw(st.integers(0, len(body) - 1))
    scanner, taken = scan(body[:length], step)
    assert not scanner.ended
    assert taken == length


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\n", b"-1\r\n", b"+1\r\n", b"0x1\r\n", b"1_0\r\n", b"\r\n", b"3\nabc\r\n", b"3\r\nabcdef\r\n",
        b"3\r\nabcX\r\n", b"3\r\nabc\n", b"0" * 17 + b"\r\n", b"1" * (MAX_LINE_BYTES + 1), b"0\r\nA: b\n\r\n",
        b"0\r\n" + b"A: b\r\n" * 20_000,
    ],
)  # fmt: skip
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_what_is_malformed_ends_at_once(body: bytes, step: int) -> None:
    assert scan(body, step)[0].malformed


def test_very_many_small_chunks_are_too_many() -> None:
    assert scan(b"1\r\nx\r\n" * 2 * FREE_CHUNKS, 5000)[0].too_many_chunks
    assert not scan(chunked([bytes(600)] * 2 * FREE_CHUNKS), 5000)[0].too_many_chunks
