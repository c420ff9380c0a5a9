"""Attacks: sites that hang, drip, send without end, or lie; the honest part of an answer stays the same."""

import json
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from threading import enumerate as enumerate_threads
from typing import Any

import numpy as np
import pytest

from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.system.access_rights import Scope
from cbir.system.setting_types import RemoteSite
from service.features.federation.bounded_request import SiteFailed, SiteRequest, send
from service.features.federation.site_agreement import site_profile
from service.features.federation.site_client import FederatedRequest, Sites, ask_sites
from tests.service.features.federation import lying_site
from tests.service.features.federation.hospitals import VECTOR, Hospital, site_of
from tests.service.features.federation.lying_site import lying, says

SECONDS = 1.0
QUERY = np.array(VECTOR, np.float32), FederatedRequest(5)


@pytest.fixture(scope="module")
def honest(collections: dict[str, Path]) -> Hospital:
    return Hospital(collections["north"])


@pytest.fixture(scope="module")
def profile(honest: Hospital) -> Any:
    """The profile of an honest site."""
    with Collection(honest.folder) as collection:
        return site_profile(collection, honest.settings)


def sites_at(address: str, seconds: float = SECONDS) -> Sites:
    return Sites({"liar": RemoteSite(url=address, seconds=seconds)})


def ask(address: str, profile: Any, seconds: float = SECONDS, sent: list[str] | None = None) -> Any:
    clients = sites_at(address, seconds).choose([])
    (outcome,) = ask_sites(clients, *QUERY, profile, [] if sent is None else sent)
    return outcome


def reply(profile: Any, hits: list[Any], **more: Any) -> bytes:
    fields = {"profile_hash": profile.profile_hash, "transform": profile.transform, "images": 30}
    return json.dumps({**fields, "method": "none", "hits": hits, **more}).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lying_site.hangs, "it did not answer within 1 seconds"),
        (lying_site.drips, "it did not answer within 1 seconds"),
        (lying_site.drips_headers, "it did not answer within 1 seconds"),
        (lying_site.never_ends, "its answer is larger than"),
        (lying_site.never_ends_in_chunks, "its answer is larger than"),
        (lying_site.breaks_off, "it broke off, or does not speak HTTP"),
        (lying_site.speaks_no_http, "it broke off, or does not speak HTTP"),
        (lying_site.redirects, "it refuses (302)"),
        (lying_site.fails, "it refuses (500)"),
        (says(b"<html>Log in</html>"), "it answers something else than a cbir service does"),
        (says(b"[" * 60_000), "it answers something else than a cbir service does"),
        (says(b'{"hits": NaN}'), "it answers something else than a cbir service does"),
    ],
)
def test_a_site_that_misbehaves_is_given_up(answer: Callable[..., Any], problem: str, profile: Any) -> None:
    with lying(profile.model_dump_json().encode(), answer) as site:
        started, sent = time.monotonic(), list[str]()
        outcome = ask(f"http://127.0.0.1:{site.server_port}", profile, sent=sent)
        assert time.monotonic() - started < 20  # processes may be paused; it is a second otherwise
        assert outcome.reply is None
        assert outcome.problem.startswith(problem)
        assert "\n" not in outcome.problem
        assert sent == ["vector to liar"]


def address_of_nothing(stack: ExitStack) -> tuple[str, int]:
    """Return an address where connections are neither accepted nor refused."""
    listening = stack.enter_context(socket.socket())
    listening.bind(("127.0.0.1", 0))
    listening.listen(0)
    for _ in range(4):  # fill its queue
        waiting = stack.enter_context(socket.socket())
        waiting.setblocking(False)
        waiting.connect_ex(listening.getsockname())
    address: tuple[str, int] = listening.getsockname()
    return address


@pytest.mark.slow
def test_addresses_are_looked_up_and_tried_within_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = Event(), Event()
    with ExitStack() as stack:
        stack.callback(answer.set)
        address = address_of_nothing(stack)
        many = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address)] * 60

        def never(*_: Any, **__: Any) -> Any:
            asked.set()
            answer.wait()
            return many

        request = SiteRequest("GET", "/", 100)
        for found in (lambda *_, **__: many, never):
            monkeypatch.setattr(socket, "getaddrinfo", found)
            started = time.monotonic()
            with pytest.raises(SiteFailed, match=r"it did not answer within 0.3 seconds"):
                send("http://north.example", request, None, 0.3)
            assert time.monotonic() - started < 10  # each of the 60 addresses in turn would take 18
        assert asked.is_set()


@pytest.mark.slow
def test_no_address_is_tried_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        many = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address_of_nothing(stack))] * 60
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: many)
        before = set(enumerate_threads())
        with pytest.raises(SiteFailed, match=r"it did not answer within 1 seconds"):
            send("http://north.example", SiteRequest("GET", "/", 100), None, 1)
        left = [thread for thread in enumerate_threads() if thread not in before]
        for thread in left:
            thread.join(5)
        assert not any(thread.is_alive() for thread in left)


def test_an_address_that_refuses_leaves_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with lying(b"{}", lying_site.fails) as site:
        addresses = [("127.0.0.1", 1), ("127.0.0.1", site.server_port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        request = SiteRequest("GET", "/v1/federation/profile", 100)
        assert send("http://north.example", request, None, 20) == (200, b"{}")


@pytest.mark.parametrize("more", [{"where": ["label"]}, {"limits": ("label",)}])
def test_wrong_conditions_are_refused_before_a_site_is_asked(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="label"):
        FederatedRequest(5, **more)


@pytest.mark.slow
def test_an_error_in_reading_one_answer_leaves_the_others(
    profile: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    content = profile.model_dump_json().encode()
    with lying(content, says(reply(profile, []))) as bad, lying(content, says(reply(profile, []))) as good:
        sites = {
            name: RemoteSite(url=f"http://127.0.0.1:{site.server_port}", seconds=20)
            for name, site in (("bad", bad), ("good", good))
        }
        clients = Sites(sites).choose([])

        def fail(*_: Any) -> Any:
            raise RuntimeError("something nobody thought of")

        monkeypatch.setattr(clients[0], "search", fail)
        sent = list[str]()
        outcomes = ask_sites(clients, *QUERY, profile, sent)
    assert outcomes[0].problem.startswith("its answer could not be read")
    assert sorted(sent) == ["vector to bad", "vector to good"]
    assert outcomes[1].reply is not None
    assert "the site bad" in caplog.text


@pytest.mark.slow
def test_no_vector_goes_to_a_site_that_differs(profile: Any) -> None:
    others = [
        profile.model_copy(update={"transform": "0" * 32}),
        profile.model_copy(update={"profile_hash": "0" * 16}),
        profile.model_copy(update={"dimensions": 7}),
    ]
    for other in others:
        with lying(other.model_dump_json().encode(), lying_site.fails) as site:
            sent = list[str]()
            outcome = ask(f"http://127.0.0.1:{site.server_port}", profile, sent=sent)
            assert outcome.problem.startswith("it differs: ")
            assert not sent
            assert not site.bodies
    with lying(b"<html>", lying_site.fails) as site:
        sent = list[str]()
        ask(f"http://127.0.0.1:{site.server_port}", profile, sent=sent)
        assert not sent
        assert not site.bodies


@pytest.mark.slow
def test_a_site_that_fails_three_times_is_left_alone(profile: Any) -> None:
    with lying(profile.model_dump_json().encode(), lying_site.fails) as site:
        clients = sites_at(f"http://127.0.0.1:{site.server_port}").choose([])
        sent = list[str]()
        for _ in range(3):
            (outcome,) = ask_sites(clients, *QUERY, profile, sent)
            assert outcome.problem == "it refuses (500)"
        (outcome,) = ask_sites(clients, *QUERY, profile, sent)
        assert outcome.problem.startswith("it failed several times and is left alone")
        assert len(site.bodies) == len(sent) == 3


@pytest.mark.slow
def test_a_site_that_is_not_there(profile: Any) -> None:
    with lying(b"", lying_site.fails) as site:
        address = f"http://127.0.0.1:{site.server_port}"
    assert ask(address, profile).problem == "it cannot be reached"


@pytest.mark.slow
def test_what_one_says_of_itself_changes_nothing_of_another(
    collections: dict[str, Path], honest: Hospital, profile: Any
) -> None:
    """A liar can at worst put its own images first, which are shown as of that site."""

    def images(count: int, distance: Any) -> list[Any]:
        return [{"image_id": f"{number:032x}", "distance": distance} for number in range(count)]

    lies = [
        reply(profile, images(5, 0.0)),
        reply(profile, images(5, float("nan"))),
        reply(profile, images(5, -1.0)),
        reply(profile, images(60, 0.0), images=5000),
    ]
    answers = []
    with honest.serve() as address:
        north = site_of(honest, address, honest.folder.parent)
        for lie in lies:
            with lying(profile.model_dump_json().encode(), says(lie)) as site:
                liar = RemoteSite(url=f"http://127.0.0.1:{site.server_port}", seconds=20)
                south = Hospital(collections["south"], sites={"liar": liar, "north": north})
                body = {"vector": VECTOR, "k": 40, "federated": True}
                answers.append(south.client(Scope.search).post("/v1/search", json=body).json)
        alone = Hospital(collections["south"], sites={"north": north}).client(Scope.search)
        expected = alone.post("/v1/search", json={"vector": VECTOR, "k": 40, "federated": True}).json

    def of_others(answer: Any) -> list[Any]:
        return [
            (hit["image_id"], hit["distance"], hit["score"], hit["site"])
            for hit in answer["results"]
            if hit["site"] != "liar"
        ]

    for answer in answers:
        assert of_others(answer) == of_others(expected)[: len(of_others(answer))]
        assert [report["name"] for report in answer["sites"]] == [None, "liar", "north"]
        assert answer["sites"][2]["problem"] == ""
    shares = [answer["sites"][1]["results"] for answer in answers]
    assert shares == [5, 0, 0, 0]
    for answer in answers[1:3]:
        assert answer["sites"][1]["notes"] == ["5 of 5 results contradict themselves and are left out"]
    assert answers[3]["sites"][1]["problem"] == "it answers 60 results to a request for 40"


def test_addresses_and_tokens(tmp_path: Path) -> None:
    for url in ("http://north.example", "ftp://north.example", "https://user:secret@north.example"):
        with pytest.raises(ValueError, match="url") as refused:
            RemoteSite(url=url)
        assert "must begin with https" in str(refused.value) or "URL" in str(refused.value)
    assert RemoteSite(url="http://127.0.0.1:8000/").url == "http://127.0.0.1:8000"
    assert RemoteSite(url="http://[::1]:8000")
    assert RemoteSite(url="http://localhost:8000")
    with pytest.raises(ValueError, match="certificate"):
        RemoteSite(url="https://north.example", key=tmp_path / "key.pem")
    wrong = tmp_path / "token"
    wrong.write_text("two words\n")
    for file in (wrong, tmp_path / "missing"):
        with pytest.raises(InvalidInput, match="token_file") as told:
            RemoteSite(url="https://north.example", token_file=file).read_token()
        assert "two words" not in str(told.value)
