"""Bytes of a request come out as they went in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.exceptions import RequestEntityTooLarge

from service.server.client_connection import PIECE_BYTES, RequestBytes

PIECES = {"nothing": b"", "a byte": b"a", "some": b"bc" * 100, "many": b"d" * (PIECE_BYTES + 1)}


@given(st.lists(st.sampled_from(sorted(PIECES)), max_size=5), st.integers(1, 99_999))
def test_nothing_is_lost(names: list[str], step: int) -> None:
    stored, pieces = RequestBytes(b"head"), [PIECES[name] for name in names]
    for piece in pieces:
        stored.append(piece)
    text = b"head" + b"".join(pieces)
    assert stored.size == len(text)
    assert b"".join(iter(lambda: stored.recv(step), b"")) == text


def test_the_end_of_what_was_cut_is_an_error() -> None:
    stored = RequestBytes(b"head")
    stored.cut = True
    assert stored.recv(100) == b"head"
    with pytest.raises(RequestEntityTooLarge):
        stored.recv(100)
