"""Logins at an identity provider that have begun: they belong to one browser and end after a while."""

import random
from functools import partial

import pytest

from service.features.oidc import oidc_client
from service.features.oidc.oidc_client import PendingLogins


def test_others_end_no_login() -> None:
    pending = PendingLogins(partial(bytes, 32))
    cookie, login = pending.begin("/?k=7")
    for _ in range(10_001):
        pending.begin("/")
    assert pending.end(cookie, login.state) == login
    assert login.next == "/?k=7"


def test_a_login_needs_its_cookie_and_state() -> None:
    pending = PendingLogins(partial(bytes, 32))
    cookie, login = pending.begin("/")
    other, another = pending.begin("/")
    assert (
        len({login.state, login.nonce, login.verifier, another.state, another.nonce, another.verifier}) == 6
    )
    assert pending.end(cookie, another.state) is None
    assert pending.end(other, login.state) is None
    assert pending.end(cookie, "ä") is None
    assert pending.end("", "") is None
    assert pending.end(cookie[:-1] + ("A" if cookie[-1] != "A" else "Q"), login.state) is None
    assert PendingLogins(lambda: b"x" * 32).end(cookie, login.state) is None, "a cookie of another service"


def test_a_login_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc_client, "LIFETIME_SECONDS", -1)
    pending = PendingLogins(partial(bytes, 32))
    cookie, login = pending.begin("/")
    assert pending.end(cookie, login.state) is None


@pytest.mark.parametrize("first", [33, 0x4E00])
def test_the_cookie_fits_into_a_browser(first: int) -> None:
    rng = random.Random(0)
    path = "/?label=" + "".join(chr(first + rng.randrange(90)) for _ in range(9000))
    cookie, login = PendingLogins(partial(bytes, 32)).begin(path)
    assert len(cookie) < 4000
    assert login.next == "/"
