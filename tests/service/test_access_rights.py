"""Tokens that are limited to collections and to images by their labels."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner
from werkzeug.datastructures import MultiDict

from cbir import settings
from cbir.api.main import app as commands
from cbir.store import Collection
from service.access.token_stores import Scope, TokenStore, TokensUnreadable
from service.app import create_app
from tests.service import wards
from tests.service.conftest import page_facts, problem
from tests.service.dicom_collection import dicom_with_name
from tests.service.wards import HIDDEN, READING, UNKNOWN, VISIBLE, Ward


@pytest.fixture(scope="session")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Ward:
    return wards.make(tmp_path_factory)


def test_counts_are_those_of_the_filter(ward: Ward) -> None:
    client, count = ward.limited(), len(ward.visible)
    info, statistics = client.get("/v1/collection").json, client.get("/v1/collection/statistics").json
    assert info["images"] == statistics["images"] == count
    assert statistics["labels"]["site"] == {VISIBLE: count}
    assert statistics["normalisation"] is None
    assert (info["statistics_fitted_on"], info["snapshot"], info["bytes_on_disk"]) == (None, None, 0)
    assert statistics["patients"] == len({r.patient_key for r in ward.visible} - {None})
    assert client.get("/v1/collections").json == {"collections": ["hand"], "default": "hand"}
    assert client.get("/readyz").json == {"status": "ready"}
    assert page_facts(client)["images"] == count
    listed = client.get("/v1/images?limit=1000").json["items"]
    assert [item["image_id"] for item in listed] == [r.image_id for r in ward.visible]


@pytest.mark.parametrize("method", ["none", "eprf", "pc", "aqe", "k-reciprocal"])
def test_a_search_is_that_of_the_filter(ward: Ward, method: str) -> None:
    """Scores too: hidden images have no part in the minima, negatives and neighbours of a re-ranking."""
    query = {"image_id": ward.visible[0].image_id, "k": 1000, "rerank": method}
    limited = ward.limited().post("/v1/search", json=query)
    whole = ward.client(Scope.search).post("/v1/search", json=query | {"where": [f"site={VISIBLE}"]})
    assert limited.status_code == whole.status_code == 200
    assert len(limited.json["results"]) == len(ward.visible) - 1
    assert limited.json["results"] == whole.json["results"]
    assert limited.json["rerank"] == whole.json["rerank"]


@pytest.mark.parametrize("method", ["none", "diffusion"])
def test_a_search_is_that_without_the_hidden_images(ward: Ward, tmp_path: Path, method: str) -> None:
    """Nothing flows through them, where behind a filter it may flow through visible images that do not pass."""
    folder = Path(shutil.copytree(ward.folder, tmp_path / "hand"))
    with Collection(folder) as collection, collection.writer() as writer:
        writer.delete([record.image_id for record in ward.hidden])
    active = settings.load(require_tokens=True, state_folder=ward.tokens.file.parent)
    client = create_app(folder, active).test_client()
    _, text = ward.tokens.create([Scope.search])
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
    query = {"image_id": ward.visible[0].image_id, "k": 1000, "rerank": method}
    limited, without = ward.limited().post("/v1/search", json=query), client.post("/v1/search", json=query)
    assert limited.status_code == without.status_code == 200
    assert len(limited.json["results"]) == len(ward.visible) - 1
    assert limited.json["results"] == without.json["results"]
    assert limited.json["rerank"] == without.json["rerank"]


def test_conditions_that_compare(ward: Ward) -> None:
    for where, expected in (
        (["severity>=10", f"site={HIDDEN}"], [r for r in ward.hidden if float(r.labels["severity"]) >= 10]),
        ([f"site!={HIDDEN}"], ward.visible),
        (["site=none"], []),
        (["modality=CT", "severity<1e3"], None),
        (["note=it's; DROP TABLE images --"], []),
    ):
        client = ward.client(Scope.search, where=where, collections=["hand"])
        items = client.get("/v1/images?limit=1000").json["items"]
        if expected is not None:
            assert [item["image_id"] for item in items] == [r.image_id for r in expected]
        else:
            assert items
            assert {item["labels"]["modality"] for item in items} == {"CT"}
        assert client.get("/").status_code == 200


def test_two_values_of_one_key_are_never_any_of_for_a_token(ward: Ward) -> None:
    client = ward.client(*READING, where=[f"site={VISIBLE}", f"site={HIDDEN}"])
    assert client.get("/v1/images").json["items"] == []
    any_of = [("where", f"site={site}") for site in (VISIBLE, HIDDEN)]
    listed = ward.client(*READING).get("/v1/images", query_string=MultiDict(any_of)).json["items"]
    assert len(listed) == len(ward.visible) + len(ward.hidden)


def test_labels_of_visible_images_alone_can_be_changed(ward: Ward, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ward.folder, tmp_path / "hand"))
    active = settings.load(require_tokens=True, state_folder=ward.tokens.file.parent)
    client = create_app(folder, active).test_client()
    _, text = ward.tokens.create(READING, where=[f"site={VISIBLE}"])
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
    seen, hidden = (f"/v1/images/{r[0].image_id}" for r in (ward.visible, ward.hidden))
    assert client.patch(seen, json={"labels": {"note": "fine"}}).json["labels"]["note"] == "fine"
    problem(client.patch(hidden, json={"labels": {"note": "fine"}}), 404)
    for change in ({"site": HIDDEN}, {"site": None}, {"site": VISIBLE}):
        assert "site" in problem(client.patch(seen, json={"labels": change}), 403)
    with Collection(folder) as collection:
        assert "note" not in collection.record(ward.hidden[0].image_id).labels
        with collection.writer() as writer:
            writer.set_labels(ward.hidden[0].image_id, {"site": VISIBLE})
            writer.set_labels(ward.visible[0].image_id, {"site": HIDDEN})
    assert client.get(hidden).status_code == 200, "the filter follows the labels"
    problem(client.get(seen), 404)
    hits = client.post("/v1/search", json={"image_id": ward.visible[1].image_id, "k": 1000}).json["results"]
    ids = {hit["image_id"] for hit in hits}
    assert ward.hidden[0].image_id in ids
    assert ward.visible[0].image_id not in ids


def test_collections_of_other_callers(ward: Ward) -> None:
    """A token for one collection may do everything there, and learns nothing of the other one."""
    client = ward.client(Scope.admin, collections=["secret-collection"])
    assert client.get("/v1/collections").json == {
        "collections": ["secret-collection"],
        "default": "secret-collection",
    }
    assert client.get("/v1/collection").json["name"] == "secret-collection"
    for address in ("/v1/collection/history", "/v1/images", "/v1/collection/statistics"):
        assert client.get(address).status_code == 200
        assert "hand" not in problem(client.get(f"{address}?collection=hand"), 404).replace(
            "named hand", ""
        ).replace("collection hand;", "")
    problem(client.delete(f"/v1/images/{UNKNOWN}?collection=hand"), 404)
    problem(client.get("/metrics"), 403)
    assert client.get("/readyz").json == {"status": "ready"}
    none = ward.client(Scope.search, collections=["gone"])
    for address in ("/v1/collection", "/v1/images", "/v1/collections"):
        assert "hand" not in problem(none.get(address), 404)
    assert none.get("/").status_code == 404


def test_a_filter_does_not_go_with_adding_or_deleting(tmp_path: Path) -> None:
    state = {"CBIR_STATE_FOLDER": str(tmp_path)}
    create = ["admin", "token", "create", "--collection", "hand", "--where", "site=A", "--scope"]
    for scope in ("ingest", "admin"):
        refused = CliRunner().invoke(commands, [*create, scope], env=state)
        assert refused.exit_code != 0
    assert not (tmp_path / "tokens.json").exists()
    for wrong in ("site", "severity>=high", "severity<inf", "=x"):
        assert (
            CliRunner()
            .invoke(commands, ["admin", "token", "create", "--scope", "search", "--where", wrong], env=state)
            .exit_code
        )
    made = CliRunner().invoke(commands, [*create, "search"], env=state)
    assert made.exit_code == 0, made.output
    listed = CliRunner().invoke(commands, ["admin", "token", "list"], env=state).output
    assert "[collection hand, where site=A]" in listed
    file = tmp_path / "tokens.json"
    file.write_text(file.read_text().replace('"search"', '"admin"'))
    file.chmod(0o600)
    with pytest.raises(TokensUnreadable):
        TokenStore(tmp_path).all()


def test_originals_need_their_own_scope(writable: Path, tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "state")
    active = settings.load(require_tokens=True, state_folder=tokens.file.parent, keep_originals=True)
    client = create_app(writable, active).test_client()

    def bearer(*scopes: Scope) -> dict[str, str]:
        return {"Authorization": f"Bearer {tokens.create(scopes)[1]}"}

    instance = dicom_with_name()
    added = client.post(
        "/v1/images", data=instance, content_type="application/dicom", headers=bearer(Scope.ingest)
    )
    (name,) = added.json["ids"]
    reader = bearer(Scope.search, Scope.annotate, Scope.ingest)
    assert "originals" in problem(client.get(f"/v1/images/{name}/original", headers=reader), 403)
    assert client.get(f"/v1/images/{name}/original", headers=bearer(Scope.originals)).data == instance
    assert client.get(f"/v1/images/{name}/original", headers=bearer(Scope.admin)).data == instance
    for address in ("", "/thumbnail", "/picture", "/picture?region=0,0,8,8"):
        answer = client.get(f"/v1/images/{name}{address}", headers=reader)
        assert answer.status_code == 200
        assert b"Doe" not in answer.data
        assert b"4711" not in answer.data
