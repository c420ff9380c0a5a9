"""The annotation server: doors, names, judgements sent twice, pictures in a window, severity as a label."""

import json
import re
import uuid
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from flask import Flask
from flask.testing import FlaskClient

from cbir import settings
from cbir.errors import InvalidInput, NotFound
from cbir.learn.severity.judged_pairs import SeverityEstimate
from cbir.store import Collection
from cbir.store.base import profile
from cbir.system.access_rights import ALL_RIGHTS
from service.access import scopes
from service.access.caller import set_rights
from service.access.scopes import OpenTo
from service.access.token_stores import Scope, TokenStore
from service.features.annotate import study_files, study_plan
from service.features.annotate.annotation_pages import ANNOTATION_RULES, create_annotation_app
from service.features.annotate.annotation_studies import EXTENSION, AnnotationState
from service.features.annotate.serve_command import serve_study
from tests.cbir.images.synthetic_dicom import dicom_set, written
from tests.service.conftest import cbir, problem
from tests.service.test_pages import facts_of


@pytest.fixture
def study(tmp_path: Path) -> Path:
    study_plan.save_plan(tmp_path / "study", {"start": 0.5, "rounds": 2})
    return tmp_path / "study"


@pytest.fixture
def app(writable: Path, study: Path) -> Iterator[Flask]:
    made = create_annotation_app(writable, study, settings.load())
    opened(made).trainer.state = "learning"  # nobody learns here
    yield made
    made.extensions[EXTENSION].close()


def opened(app: Flask) -> AnnotationState:
    """The study of an app that has one."""
    with app.test_request_context():
        set_rights(ALL_RIGHTS)
        state: AnnotationState = app.extensions[EXTENSION].open(None)
        return state


@pytest.fixture
def tokens(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "state")


@pytest.fixture
def closed(writable: Path, study: Path, tokens: TokenStore) -> Iterator[Flask]:
    """With tokens needed."""
    made = create_annotation_app(
        writable, study, settings.load(require_tokens=True, state_folder=tokens.file.parent)
    )
    yield made
    made.extensions[EXTENSION].close()


def bearer(tokens: TokenStore, scope: Scope, name: str = "") -> dict[str, str]:
    return {"Authorization": f"Bearer {tokens.create([scope], name=name)[1]}"}


def pairs(client: FlaskClient, count: int = 3, who: str = "Ada") -> dict[str, Any]:
    answer = client.get("/annotate/pairs", query_string={"who": who, "count": count})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json
    return found


def judgement(pair: dict[str, str], answer: str = "first", who: str | None = "Ada") -> dict[str, Any]:
    named = {"who": who} if who else {}
    return {"name": str(uuid.uuid4()), "seconds": 1.5, "answer": answer, **pair, **named}


def test_pairs_judged_and_taken_back(client: FlaskClient) -> None:
    first, *others = pairs(client)["pairs"]
    sent = judgement(first)
    for _ in range(2):  # sent again where the answer was lost on its way
        answer = client.post("/annotate/judgements", json=sent)
        assert answer.status_code == 200, answer.text
        assert answer.json["progress"]["judged"] == 1
    found = pairs(client, 2)
    assert found["pairs"] == others
    assert [one["name"] for one in found["history"]] == [sent["name"]]
    assert found["progress"]["done"] == 1
    taken = {"name": str(uuid.uuid4()), "who": "Ada", "undoes": sent["name"]}
    assert client.post("/annotate/undo", json=taken).json["progress"]["judged"] == 0
    assert pairs(client, 1)["pairs"] == [first]
    assert "taken back" not in problem(
        client.post("/annotate/undo", json=taken | {"name": "another-1", "who": "Bob"}), 422
    )


def test_images_graded_and_taken_back(writable: Path, tmp_path: Path) -> None:
    study_plan.save_plan(tmp_path / "s", {"grades": (0.0, 1.5, 3.0), "start": 0.5})
    app = create_annotation_app(writable, tmp_path / "s", settings.load())
    client = app.test_client()
    assert [grade["value"] for grade in facts_of(client.get("/annotate").text)["grades"]] == ["0", "1.5", "3"]
    image = pairs(client, 1)["pairs"][0]["first"]
    sent = {"name": str(uuid.uuid4()), "seconds": 7, "image": image, "grade": 1.5, "who": "Ada"}
    for _ in range(2):
        answer = client.post("/annotate/grades", json=sent)
        assert answer.status_code == 200, answer.text
    assert (answer.json["progress"]["graded"], answer.json["progress"]["judged"]) == (1, 0)
    found = pairs(client)
    assert found["grades"] == {image: 1.5}
    assert found["history"] == [{"name": sent["name"], "image": image, "seconds": 7}]
    assert pairs(client, who="Bob")["grades"] == {}
    for wrong in ({"grade": 2}, {"grade": "high"}, {"image": "x"}, {"seconds": -1}, {"more": 1}):
        problem(client.post("/annotate/grades", json=sent | {"name": str(uuid.uuid4())} | wrong), 422)
    undone = {"name": str(uuid.uuid4()), "who": "Ada", "undoes": sent["name"]}
    assert client.post("/annotate/undo", json=undone).json["progress"]["graded"] == 0
    assert pairs(client)["grades"] == {}
    app.extensions[EXTENSION].close()


def test_a_study_without_grades(client: FlaskClient) -> None:
    assert facts_of(client.get("/annotate").text)["grades"] == []
    image = pairs(client, 1)["pairs"][0]["first"]
    sent = {"name": str(uuid.uuid4()), "seconds": 7, "image": image, "grade": 1, "who": "Ada"}
    assert "--grades" in problem(client.post("/annotate/grades", json=sent), 422)


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"answer": "third"}, 422),
        ({"seconds": -1}, 422),
        ({"seconds": "soon"}, 422),
        ({"first": "../../etc"}, 422),
        ({"name": "x"}, 422),
        ({"who": ""}, 422),
        ({"who": "A\nB"}, 422),
        ({"who": "A" * 101}, 422),
        ({"more": 1}, 422),
    ],
)
def test_what_does_not_fit_is_refused(client: FlaskClient, changed: dict[str, Any], status: int) -> None:
    (pair,) = pairs(client, 1)["pairs"]
    problem(client.post("/annotate/judgements", json=judgement(pair) | changed), status)
    assert pairs(client, 1)["progress"]["judged"] == 0


def test_bodies_of_another_kind(client: FlaskClient) -> None:
    problem(client.post("/annotate/judgements", data="x"), 415)
    problem(client.post("/annotate/judgements", data="[", content_type="application/json"), 400)
    big = client.post("/annotate/judgements", data=b" " * 2**21, content_type="application/json")
    problem(big, 413)
    problem(client.get("/annotate/pairs"), 422)
    problem(client.get("/annotate/pairs?who=Ada&count=1000"), 422)


def test_the_page_and_the_way_to_it(client: FlaskClient) -> None:
    assert client.get("/").headers["Location"] == "/annotate"
    page = client.get("/annotate")
    assert page.status_code == 200
    assert "Which one is more severe?" in page.text
    assert "<script>" not in page.text
    assert "style=" not in page.text
    for address in re.findall(r'(?:src|href)="(/[^"?]*\.(?:js|css|svg))"', page.text):
        assert client.get(address).status_code == 200, address
    assert client.get("/docs/errors").status_code == 200
    assert client.get("/healthz").json == {"status": "ok"}


def test_the_question_is_text(writable: Path, tmp_path: Path) -> None:
    study_plan.save_plan(tmp_path / "s", {"question": "<script>alert(1)</script>?"})
    app = create_annotation_app(writable, tmp_path / "s", settings.load())
    assert "<script>alert" not in app.test_client().get("/annotate").text
    app.extensions[EXTENSION].close()


def test_no_address_but_those_of_the_study_is_there(
    closed: Flask, tokens: TokenStore, ids: list[str]
) -> None:
    client, everything = closed.test_client(), bearer(tokens, Scope.admin)
    for path in (
        "/browse",
        "/gallery",
        "/study",
        "/admin",
        "/studies",
        "/v1/collection",
        f"/v1/images/{ids[0]}",
        "/metrics",
    ):
        assert client.get(path, headers=everything).status_code == 404, path
    assert client.post("/v1/search", headers=everything, json={"image_id": ids[0]}).status_code == 404
    page = client.get("/annotate", headers=everything).text
    assert not re.findall(r'href="(/browse|/admin|/studies|/map)[^"]*"', page)
    assert 'role="search"' not in page


def test_strangers_and_other_scopes_get_nowhere(closed: Flask, tokens: TokenStore) -> None:
    stranger, client = closed.test_client(), closed.test_client()
    allowed, refused = bearer(tokens, Scope.annotate), bearer(tokens, Scope.search)
    tried = 0
    for rule in closed.url_map.iter_rules():
        path = re.sub(r"<[^>]*>", "x", rule.rule)
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            entry = scopes.rule_of_address(closed, method, rule.rule)
            if entry and entry.need is not OpenTo.anyone:
                assert stranger.open(path, method=method).status_code == 401, path
                if entry.need is Scope.annotate:
                    problem(client.open(path, method=method, headers=refused), 403)
                assert client.open(path, method=method, headers=allowed).status_code not in (401, 403)
                tried += 1
    assert tried == len(ANNOTATION_RULES) + 2


def test_the_token_says_who(closed: Flask, tokens: TokenStore) -> None:
    client = closed.test_client()
    named, nameless = bearer(tokens, Scope.annotate, "Dr. Ada"), bearer(tokens, Scope.annotate)
    found = client.get("/annotate/pairs?count=1", headers=named).json
    assert found["who"] == "Dr. Ada"
    sent = judgement(found["pairs"][0], who="somebody else")
    assert client.post("/annotate/judgements", json=sent, headers=named).json["who"] == "Dr. Ada"
    assert re.fullmatch("[0-9a-f]{8}", client.get("/annotate/pairs", headers=nameless).json["who"])
    lines = (tokens.file.parent / "audit.jsonl").read_text().splitlines()
    assert '"action": "judge"' in lines[1]
    assert found["pairs"][0]["first"] in lines[0]
    assert found["pairs"][0]["first"] in lines[1]


def test_forms_of_other_sites(client: FlaskClient) -> None:
    (pair,) = pairs(client, 1)["pairs"]
    headers = {"Sec-Fetch-Site": "cross-site"}
    problem(client.post("/annotate/judgements", json=judgement(pair), headers=headers), 403)


def shown(client: FlaskClient, image: str, window: str = "") -> tuple[np.ndarray, Any]:
    answer = client.get(f"/annotate/images/{image}/picture{window and '?window='}{window}")
    assert answer.status_code == 200, answer.text
    return cv2.imdecode(np.frombuffer(answer.data, np.uint8), cv2.IMREAD_UNCHANGED), answer.headers


def test_pictures_in_a_window(client: FlaskClient, ids: list[str]) -> None:
    pixels, headers = shown(client, ids[0])
    assert headers["Image-Values"] == "0,255"
    assert headers["Image-Scale"] == "shown"
    assert (shown(client, ids[0], "127.5,255")[0] == pixels).all()
    narrow, headers = shown(client, ids[0], "100,50")
    assert headers["Image-Window"] == "100,50"
    expected = np.rint(np.clip((pixels.astype(float) - 75) / 50, 0, 1) * 255)
    assert np.abs(narrow - expected).max() <= 1
    tag = client.get(f"/annotate/images/{ids[0]}/picture").headers["ETag"]
    again = client.get(f"/annotate/images/{ids[0]}/picture", headers={"If-None-Match": tag})
    assert again.status_code == 304
    for wrong in ("1", "1,0", "1,-2", "nan,1", "a,b", "1e99,1"):
        problem(client.get(f"/annotate/images/{ids[0]}/picture?window={wrong}"), 422)
    problem(client.get(f"/annotate/images/{'0' * 32}/picture"), 404)


def test_dicom_keeps_its_depth(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    for number in range(2):
        ramp = np.add.outer(np.arange(64), np.arange(64) * 64).astype(np.uint16)
        made = dicom_set(np.roll(ramp, 9 * number, axis=1), SOPInstanceUID=f"1.2.{number}")
        (tmp_path / "files" / f"{number}.dcm").write_bytes(written(made))
    cbir("index", tmp_path / "files", "--collection", tmp_path / "c", "--jobs", "1")
    study_plan.save_plan(tmp_path / "s", {})
    app = create_annotation_app(tmp_path / "c", tmp_path / "s", settings.load())
    with Collection(tmp_path / "c") as collection:
        image = next(record.image_id for _, record in collection.iterate())
    _, headers = shown(app.test_client(), image)
    assert headers["Image-Scale"] == "stored"
    narrow, _ = shown(app.test_client(), image, "2000,128")
    assert len(np.unique(narrow)) > 100, "the 8 bits of the whole range have 8 in this window"
    app.extensions[EXTENSION].close()


def test_severity_as_a_label(client: FlaskClient, app: Flask, writable: Path, ids: list[str]) -> None:
    problem(client.post("/annotate/severity", json={}), 409)
    study = opened(app).study
    values = np.linspace(-1, 2, len(ids), dtype=np.float32)

    class Ranker:
        def save(self, folder: Path, facts: dict[str, int]) -> None:
            folder.mkdir(parents=True)
            weights, card = study_files.RANKER
            (folder / weights).write_bytes(b"weights")
            (folder / card).write_text(json.dumps({"sha256": sha256(b"weights").hexdigest()}))

    said = SeverityEstimate(values, values**2, values[:, None])
    study_files.store_trained_model(study.folder, Ranker(), 1, 5, ids, said)  # type: ignore[arg-type]
    study.reload_model()
    assert pairs(client)["progress"]["learnt"] == 1
    answer = client.post("/annotate/severity", json={})
    assert answer.json == {
        "label": "severity",
        "images": len(ids),
        "changed": len(ids),
        "after": 1,
        "where": [],
    }
    with Collection(writable) as collection:
        assert float(collection.record(ids[-1]).labels["severity"]) == pytest.approx(2)
    assert {path.name for path in (writable / "severity").iterdir()} == {*study_files.RANKER, "SHA256SUMS"}


def test_agreement_is_told(client: FlaskClient, app: Flask, study: Path) -> None:
    for pair in pairs(client, 6)["pairs"]:
        for who in ("Ada", "Bob"):
            client.post("/annotate/judgements", json=judgement(pair, who=who))
    (pair,) = pairs(client, 1)["pairs"]
    for who, answer in (("Ada", "first"), ("Bob", "second")):
        client.post("/annotate/judgements", json=judgement(pair, answer, who))
    found = pairs(client)["agreement"]
    assert (found["people"], found["pairs"]) == (2, 7)
    assert -1 < found["alpha"] < 1
    printed = cbir("annotate", "agreement", "--study-dir", study)
    assert "2 people; 7 pairs" in printed
    assert "Ada and Bob: Cohen's kappa" in printed


def test_what_cannot_be_served_is_told_before_anything_is_made(indexed: Path, tmp_path: Path) -> None:
    folder, empty = tmp_path / "study", tmp_path / "empty"
    Collection.create(empty, profile.get("huang2012")).close()
    for given, error, words in (
        ({"collection": empty}, InvalidInput, "two images; .*empty has 0"),
        ({"collection": tmp_path / "none"}, NotFound, "no collection"),
        ({"collection": indexed, "host": "0.0.0.0"}, InvalidInput, "loopback"),
        ({"collection": indexed, "strategy": "magic"}, InvalidInput, "magic"),
        ({"collection": indexed, "rounds": 0}, InvalidInput, "--rounds"),
        ({"collection": indexed, "backbone": "large"}, InvalidInput, "unknown backbone 'large'"),
        ({"collection": indexed, "weights": str(tmp_path / "no.pth")}, NotFound, "no.pth"),
        ({"collection": indexed, "weights": str(indexed)}, NotFound, "embedding.json"),
    ):
        with pytest.raises(error, match=words):
            serve_study(study_dir=folder, **given)  # type: ignore[arg-type]
        assert not folder.exists()


def test_weights_that_no_longer_fit_are_told_before_people_judge(indexed: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from cbir.descriptors.networks.embedder import Embedder, save_embedder

    model, study = tmp_path / "model", tmp_path / "study"
    model.mkdir()
    save_embedder(Embedder("toprank", side=32), model, {})
    study_plan.save_plan(study, {"backbone": "toprank", "weights": str(model)})
    with pytest.raises(InvalidInput, match="another network"):
        serve_study(collection=indexed, study_dir=study, backbone="small")
    assert study_plan.read_plan(study).backbone == "toprank"
    model.rename(tmp_path / "elsewhere")
    with pytest.raises(NotFound, match="no weights"):
        serve_study(collection=indexed, study_dir=study)
    with pytest.raises(InvalidInput, match="strategy"):  # the weights are no reason any more
        serve_study(collection=indexed, study_dir=study, weights="none", strategy="magic")
    for wrong in ("mild,1", "mild,mild", "1", "2,1", "0,nan"):
        with pytest.raises(InvalidInput, match="--grades"):
            serve_study(collection=indexed, study_dir=study, weights="none", grades=wrong)


def test_pictures_are_read_in_decoders(
    client: FlaskClient, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode_here(*_: object, **__: object) -> None:
        raise AssertionError("this process must not decode files")

    monkeypatch.setattr("cbir.images.reading._images", decode_here)
    assert shown(client, ids[0])[0].size
    assert shown(client, ids[0], "100,50")[0].size
