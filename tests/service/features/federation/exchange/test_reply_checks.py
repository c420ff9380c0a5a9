"""Replies of dishonest sites: what is refused as a whole, and what is left out."""

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.images.scaling import encode_image
from cbir.store.records.filter_conditions import parse_filters
from service.features.federation.site_messages import (
    AskedFor,
    SiteProfile,
    UntrustedReply,
    check_reply,
    read_message,
)

PROFILE = SiteProfile(
    profile="tamura",
    profile_hash="0123456789abcdef",
    transform="0" * 32,
    dimensions=6,
    images=100,
    labels=["modality"],
    thumbnails=True,
    ids=False,
    results=50,
)
PLAIN, RERANKED = AskedFor(PROFILE, 5, "none"), AskedFor(PROFILE, 5, "eprf")


def jpeg(side: int) -> str:
    return base64.b64encode(encode_image(np.zeros((side, side), np.uint8), ".jpg")).decode()


def hit(number: int, distance: Any, **more: Any) -> dict[str, Any]:
    return {"image_id": f"{number:032x}", "distance": distance, **more}


def reply(hits: list[Any], method: str = "none", **more: Any) -> bytes:
    fields = {"profile_hash": PROFILE.profile_hash, "transform": PROFILE.transform, "images": 100}
    return json.dumps({**fields, "method": method, "hits": hits, **more}).encode()


def distances(content: bytes, asked: AskedFor = PLAIN) -> list[float]:
    return [found.distance for found in check_reply(content, asked).hits]


def test_an_honest_reply_is_kept_as_it_is() -> None:
    sent = [hit(1, 0), hit(2, 0.5, labels={"modality": "CR"}, thumbnail=jpeg(64)), hit(3, 0.5)]
    checked = check_reply(reply(sent), PLAIN)
    assert checked.notes == ()
    assert checked.images == 100
    assert checked.hits[0].distance == 0
    assert checked.hits[1].labels == {"modality": "CR"}
    assert checked.hits[1].thumbnail == sent[1]["thumbnail"]
    assert check_reply(reply([]), PLAIN).hits == ()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html><body>Log in</body></html>",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        reply([], images=-1),
        reply([], images=10**15),
        reply([], images="many"),
        reply([], more=1),
        reply([], transform="1" * 32),
        reply([], profile_hash="f" * 16),
        reply([], method="eprf"),
        reply([hit(number, 1) for number in range(6)]),
        reply([hit(number, 1) for number in range(3)], images=2),
        reply({"0": hit(1, 1)}),  # type: ignore[arg-type]
        reply([hit(number, 1) for number in range(2000)]),
    ],
)
def test_a_reply_that_is_no_answer_is_refused(content: bytes) -> None:
    with pytest.raises(UntrustedReply) as refused:
        check_reply(content, PLAIN)
    assert "html" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "wrong",
    [
        hit(9, float("nan")),
        hit(9, float("inf")),
        hit(9, -0.5),
        hit(9, "0.1"),
        hit(9, None),
        hit(9, True),
        hit(1, 0.6),  # an image twice
        hit(9, 0.1),  # nearer than the one before it
        {"image_id": "../../etc/passwd", "distance": 0.6},
        {"image_id": "<script>", "distance": 0.6},
        {"distance": 0.6},
        hit(9, 0.6, patient="Doe"),
        hit(9, 0.6, labels={"modality": 3}),
        "hit",
        None,
    ],
)
def test_a_result_that_contradicts_itself_is_left_out_with_a_note(wrong: Any) -> None:
    checked = check_reply(reply([hit(1, 0.5), wrong, hit(2, 0.75)]), PLAIN)
    assert [found.distance for found in checked.hits] == [0.5, 0.75]
    assert checked.notes == ("1 of 3 results contradict themselves and are left out",)


def test_scores_of_a_reranker_fall() -> None:
    sent = [hit(1, 3, score=0.9), hit(2, 1, score=0.95), hit(3, 2), hit(4, 2, score=0.5)]
    checked = check_reply(reply(sent, "eprf"), RERANKED)
    assert [found.distance for found in checked.hits] == [3, 2]
    assert checked.notes == ("2 of 4 results contradict themselves and are left out",)


@pytest.mark.parametrize(
    "more",
    [
        {"labels": {"name": "Doe"}},
        {"labels": {"modality": "x" * 301}},
        {"labels": {"modality": "CR\u202e"}},
        {"thumbnail": "not base64!"},
        {"thumbnail": base64.b64encode(b"<svg onload=alert(1)>").decode()},
        {"thumbnail": jpeg(600)},
        {"thumbnail": "A" * 200_000},
    ],
)
def test_labels_and_pictures_that_were_not_agreed_are_left_out(more: dict[str, Any]) -> None:
    checked = check_reply(reply([hit(1, 0.5, **more)]), PLAIN)
    assert checked.hits[0].labels == {}
    assert checked.hits[0].thumbnail is None
    assert checked.notes == ("labels or thumbnails of 1 results are not as agreed and are left out",)


def test_results_fulfil_the_conditions() -> None:
    asked = AskedFor(PROFILE, 5, "none", parse_filters(["modality=CR", "modality=DX"]))
    sent = [
        hit(1, 0.1, labels={"modality": "CR"}),
        hit(2, 0.2, labels={"modality": "CT"}),
        hit(3, 0.3),
        hit(4, 0.4, labels={"modality": "DX", "name": "Doe"}),  # then no label of it counts
    ]
    checked = check_reply(reply(sent), asked)
    assert [found.distance for found in checked.hits] == [0.1]
    assert checked.notes == (
        "labels or thumbnails of 1 results are not as agreed and are left out",
        "3 results do not fulfil the conditions and are left out",
    )


def test_what_terminals_would_obey_is_no_name() -> None:
    message = PROFILE.model_dump() | {"profile": "\x1b[2J"}
    with pytest.raises(UntrustedReply):
        read_message(json.dumps(message).encode(), SiteProfile)


def test_no_reply_is_read_beyond_the_limit() -> None:
    assert AskedFor(PROFILE, 1000, "none").most_bytes == 64 * 2**20


def test_a_site_that_announced_no_thumbnails_shows_none() -> None:
    silent = AskedFor(PROFILE.model_copy(update={"thumbnails": False}), 5, "none")
    assert check_reply(reply([hit(1, 0.5, thumbnail=jpeg(64))]), silent).hits[0].thumbnail is None
    assert silent.most_bytes < PLAIN.most_bytes


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_refused(content: bytes) -> None:
    for read in (lambda: check_reply(content, PLAIN), lambda: read_message(content, SiteProfile)):
        with pytest.raises(UntrustedReply):
            read()


values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(values | st.builds(hit, st.integers(0, 3), values), max_size=5))
def test_what_is_kept_is_sound(sent: list[Any]) -> None:
    kept = distances(reply(sent))
    assert kept == sorted(kept)
    assert all(0 <= distance < float("inf") for distance in kept)
