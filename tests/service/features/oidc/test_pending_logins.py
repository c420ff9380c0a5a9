"""Logins at an identity provider: those begun belong to one browser and end; settings that cannot work."""

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cbir import settings
from cbir.errors import InvalidInput
from service.access.security import check_startup
from service.features.oidc import oidc_client
from service.features.oidc.oidc_client import PendingLogins
from tests.service.identity_provider import GROUPS


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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"oidc_issuer": "http://idp.example.org", "oidc_client_id": "x"}, "https"),
        ({"oidc_issuer": "https://idp.example.org"}, "oidc_client_id"),
        (
            {
                "oidc_issuer": "https://idp.example.org",
                "oidc_client_id": "x",
                "oidc_client_secret_file": Path("/none"),
            },
            "oidc_client_secret_file",
        ),
    ],
)
def test_settings_that_cannot_work(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        check_startup(settings.load(state_folder=tmp_path, groups=GROUPS, **options))
