"""Saved cases over the API: saving, finding, sharing, changing, deleting."""

import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from flask import Flask
from flask.testing import FlaskClient
from PIL import Image

from cbir import settings
from cbir.store import Collection
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.client import Client
from service.features.saved.cases import routes as case_routes
from service.features.saved.cases import tables as saved_cases
from service.features.saved.cases.tables import QueryPicture, Viewer
from service.features.saved.cohorts import routes as cohort_routes
from service.features.saved.erase import erase_saved
from service.features.saved.messages import CaseSearch, NewCase
from service.state.database import open_state
from tests.service import wards
from tests.service.conftest import command, facts_of, problem
from tests.service.wards import Ward


@pytest.fixture
def ward(tmp_path_factory: pytest.TempPathFactory, state: Path) -> Ward:
    """The service without the cases that other tests have shared."""
    return wards.with_own_state(wards.make(tmp_path_factory), state)


def new_case(ids: list[str], **changes: Any) -> dict[str, Any]:
    """A case about the first image, whose results are the second and the third."""
    answers = [
        {"rank": rank, "image_id": image_id, "score": 1 / rank, "distance": rank / 2}
        for rank, image_id in enumerate(ids[1:3], start=1)
    ]
    marks = [{"image_id": ids[1], "relevance": 1}, {"image_id": ids[2], "relevance": -1}]
    return {
        "title": "Knee",
        "search": {
            "image_id": ids[0],
            "k": 2,
            "rerank": "none",
            "where": ["label=even"],
            "group_by": "patient",
            "exclude_own_study": True,
        },
        "method": "none",
        "answers": answers,
        "rounds": [marks[:1]],
        "marks": marks,
        **changes,
    }


def save(client: FlaskClient, case: dict[str, Any], file: bytes | None = None) -> Any:
    if file is None:
        answer = client.post("/v1/cases", json=case)
    else:
        answer = client.post("/v1/cases", data={"image": (io.BytesIO(file), "a"), "case": json.dumps(case)})
    assert answer.status_code == 201, answer.text
    return answer.json


def titles(client: FlaskClient, address: str = "/v1/cases") -> list[str]:
    return [item["title"] for item in client.get(address).json["items"]]


def test_a_saved_case_comes_back_as_it_was(client: FlaskClient, ids: list[str]) -> None:
    sent = new_case(ids, note="First.\n\nSecond.", outlier=True, verdict="No clear answer.")
    saved = save(client, sent)
    read = client.get(f"/v1/cases/{saved['id']}").json
    assert read == saved
    assert read["search"].items() >= sent["search"].items()
    for name in ("title", "note", "rounds", "marks", "method", "outlier", "verdict"):
        assert read[name] == sent[name]
    assert [
        {key: hit[key] for key in ("rank", "image_id", "score", "distance")} for hit in read["answers"]
    ] == sent["answers"]
    assert read["answers"][0]["labels"]["label"] == "odd"
    assert read["picture"] == f"/v1/collections/collection/images/{ids[0]}/thumbnail"
    assert read["mine"]
    assert read["missing"] == 0


def test_an_uploaded_query_is_kept_as_a_picture_without_its_header(
    client: FlaskClient, pictures: list[Path], ids: list[str]
) -> None:
    file = io.BytesIO()
    with Image.open(pictures[-1]) as picture:
        picture.save(file, "PNG", pnginfo=_text_chunk("PatientName", "Doe"))
    saved = save(client, new_case(ids, search={"region": [1, 2, 20, 10]}), file.getvalue())
    assert saved["search"]["region"] == [1, 2, 20, 10]
    stored = client.get(saved["picture"])
    assert stored.mimetype == "image/png"
    assert b"Doe" not in stored.data
    with Image.open(io.BytesIO(stored.data)) as kept, Image.open(pictures[-1]) as original:
        assert kept.convert("RGB").tobytes() == original.convert("RGB").tobytes()
        assert kept.info == {}


def _text_chunk(key: str, value: str) -> Any:
    from PIL.PngImagePlugin import PngInfo

    info = PngInfo()
    info.add_text(key, value)
    return info


def test_the_region_of_a_large_query_is_that_of_the_reduced_picture(
    client: FlaskClient, ids: list[str]
) -> None:
    file = io.BytesIO()
    Image.new("L", (4096, 100)).save(file, "PNG")
    saved = save(client, new_case(ids, search={"region": [400, 20, 1000, 60]}), file.getvalue())
    assert saved["search"]["region"] == [200, 10, 500, 30]
    with Image.open(io.BytesIO(client.get(saved["picture"]).data)) as kept:
        assert kept.size == (2048, 50)


@pytest.mark.usefixtures("each_database")
@pytest.mark.parametrize(
    ("region", "kept"), [([4096, 99, 1, 1], [2047, 49, 1, 1]), ([0, 99, 4097, 1], [0, 49, 2048, 1])]
)
def test_a_region_at_the_border_stays_inside_the_reduced_picture(
    client: FlaskClient, ids: list[str], region: list[int], kept: list[int]
) -> None:
    file = io.BytesIO()
    Image.new("L", (4097, 100)).save(file, "PNG")
    saved = save(client, new_case(ids, search={"region": region}), file.getvalue())
    assert saved["search"]["region"] == kept
    assert client.get(f"/v1/cases/{saved['id']}/export").status_code == 200


@pytest.mark.parametrize("uploaded", [True, False])
@pytest.mark.parametrize("region", [[5000, 5000, 5, 5], [0, 0, 0, 0]])
def test_a_region_outside_of_the_query(
    client: FlaskClient, pictures: list[Path], ids: list[str], uploaded: bool, region: list[int]
) -> None:
    if uploaded:
        case = json.dumps(new_case(ids, search={"region": region}))
        data = {"image": (io.BytesIO(pictures[-1].read_bytes()), "a"), "case": case}
        answer = client.post("/v1/cases", data=data)
    else:
        answer = client.post("/v1/cases", json=new_case(ids, search={"image_id": ids[0], "region": region}))
    assert "not inside the image" in problem(answer, 422)
    assert titles(client) == []


def test_searching_titles_and_notes_page_by_page(client: FlaskClient, ids: list[str]) -> None:
    for title, note in (("Ödem", ""), ("Lung", "kein ÖDEM"), ("100 %", "a_b")):
        save(client, new_case(ids, title=title, note=note))
    assert titles(client) == ["100 %", "Lung", "Ödem"]
    assert titles(client, "/v1/cases?words=ödem") == ["Lung", "Ödem"]
    assert titles(client, "/v1/cases?words=0 %25") == ["100 %"]
    assert titles(client, "/v1/cases?words=axb") == []
    first = client.get("/v1/cases?limit=2").json
    assert [item["title"] for item in first["items"]] == ["100 %", "Lung"]
    last = client.get(f"/v1/cases?limit=2&cursor={first['next']}").json
    assert ([item["title"] for item in last["items"]], last["next"]) == (["Ödem"], None)


@pytest.mark.usefixtures("each_database")
def test_changing_and_deleting(client: FlaskClient, ids: list[str]) -> None:
    address = f"/v1/cases/{save(client, new_case(ids))['id']}"
    changed = client.patch(address, json={"note": "New"}).json
    assert (changed["title"], changed["note"], changed["shared"]) == ("Knee", "New", False)
    assert titles(client, "/v1/cases?words=new") == ["Knee"]
    assert client.delete(address).status_code == 204
    problem(client.get(address), 404)
    problem(client.delete(address), 404)


@pytest.mark.usefixtures("each_database")
@pytest.mark.parametrize("kind", ["case", "cohort"])
def test_changes_of_different_fields_at_the_same_time_are_all_kept(
    app: Flask, client: FlaskClient, ids: list[str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = new_case(ids) if kind == "case" else {"title": "Knee", "relevant": ids[:1]}
    address = f"/v1/{kind}s/{client.post(f'/v1/{kind}s', json=new).json['id']}"
    routes = {"case": case_routes, "cohort": cohort_routes}[kind]
    find, found = getattr(routes, f"find_own_{kind}"), threading.Barrier(2)

    def find_together(document: str) -> Any:
        row = find(document)
        found.wait(10)
        return row

    monkeypatch.setattr(routes, f"find_own_{kind}", find_together)
    with ThreadPoolExecutor(2) as pool:
        changes = [{"title": "Left knee"}, {"note": "Compare."}]
        answers = list(pool.map(lambda change: app.test_client().patch(address, json=change), changes))
    assert [answer.status_code for answer in answers] == [200, 200]
    stored = client.get(address).json
    assert (stored["title"], stored["note"]) == ("Left knee", "Compare.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": "  "}, "title"),
        ({"title": "x" * 201}, "title"),
        ({"note": "x" * 10_001}, "note"),
        ({"search": {}}, "one query"),
        ({"search": {"image_id": "a", "text": "b"}}, "one query"),
        ({"answers": [{"rank": 1, "image_id": "a", "score": "NaN", "distance": 0}]}, "score"),
        ({"patient": "Doe"}, "no such parameter"),
    ],
)
def test_a_case_that_cannot_be_saved(client: FlaskClient, ids: list[str], change: Any, message: str) -> None:
    assert message in problem(client.post("/v1/cases", json=new_case(ids, **change)), 422)
    assert titles(client) == []


def test_an_unknown_query_and_unknown_results(client: FlaskClient, ids: list[str]) -> None:
    problem(client.post("/v1/cases", json=new_case(["0" * 32, *ids[1:]])), 404)
    saved = save(client, new_case([ids[0], "0" * 32, ids[2]]))
    assert [hit["image_id"] for hit in saved["answers"]] == [ids[2]]
    assert [mark["image_id"] for mark in saved["marks"]] == [ids[2]]


@pytest.mark.usefixtures("each_database")
def test_the_number_of_cases_is_limited(
    client: FlaskClient, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_cases, "MAX_CASES", 1)
    save(client, new_case(ids))
    assert "1 saved cases" in problem(client.post("/v1/cases", json=new_case(ids)), 422)


@pytest.mark.usefixtures("each_database")
def test_the_size_of_a_callers_cases_is_limited(
    client: FlaskClient, ids: list[str], pictures: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    long = new_case(ids, note="x" * 9000)
    monkeypatch.setattr(saved_cases, "MAX_BYTES", 25_000)
    first = save(client, long)
    save(client, long)
    assert "as many as allowed" in problem(client.post("/v1/cases", json=long), 422)
    assert len(titles(client)) == 2
    small = save(client, new_case(ids))["id"]
    uploaded = {"image": pictures[0].open("rb"), "case": json.dumps(new_case(ids, search={}))}
    assert "as many as allowed" in problem(client.post("/v1/cases", data=uploaded), 422), "with its picture"
    longer = client.patch(f"/v1/cases/{small}", json={"note": "x" * 9000})
    assert "as many as allowed" in problem(longer, 422), "changes count too"
    assert client.patch(f"/v1/cases/{small}", json={"title": "x", "note": "y" * 500}).status_code == 200
    assert client.delete(f"/v1/cases/{first['id']}").status_code == 204
    assert "as many as allowed" in problem(client.post("/v1/cases", json=new_case(ids, note="ö" * 9000)), 422)
    save(client, long)
    monkeypatch.setattr(saved_cases, "MAX_BYTES", 1)
    for change, code in (({"title": "y"}, 200), ({"title": "ö"}, 422), ({"title": "xy"}, 422)):
        changed = client.patch(f"/v1/cases/{small}", json={"note": "y" * 500} | change)
        assert changed.status_code == code, change


@pytest.mark.usefixtures("each_database")
def test_the_size_of_stored_cases_is_that_of_their_bytes(
    client: FlaskClient, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_cases, "MAX_BYTES", 25_000)
    save(client, new_case(ids, note="ö" * 9000))
    answer = client.post("/v1/cases", json=new_case(ids, note="x" * 9000))
    assert "as many as allowed" in problem(answer, 422)


def test_deleted_images_vanish_from_a_case(writable: Path, ids: list[str]) -> None:
    client = create_app(writable, settings.load()).test_client()
    address = f"/v1/cases/{save(client, new_case(ids, verdict='2 of the 2 nearest'))['id']}"
    client.delete(f"/v1/images/{ids[1]}")
    case = client.get(address).json
    assert case["verdict"] == ""
    assert [hit["image_id"] for hit in case["answers"]] == [ids[2]]
    assert case["missing"] == 1
    assert ids[1] not in json.dumps(case)
    client.delete(f"/v1/images/{ids[0]}")
    assert client.get(address).json["picture"] is None
    assert client.get(f"{address}/export").status_code == 200


@pytest.mark.usefixtures("each_database")
def test_cases_are_private_until_they_are_shared(ward: Ward) -> None:
    owner, other, admin = (ward.client(scope) for scope in (Scope.search, Scope.search, Scope.admin))
    ids = [record.image_id for record in ward.visible]
    address = f"/v1/cases/{save(owner, new_case(ids, title='Mine'))['id']}"
    assert titles(other) == []
    problem(other.get(address), 404)
    problem(other.get(f"{address}/export"), 404)
    assert titles(admin) == ["Mine"]
    owner.patch(address, json={"shared": True})
    assert titles(other) == ["Mine"]
    assert not other.get(address).json["mine"]
    for response in (other.patch(address, json={"title": "Yours"}), other.delete(address)):
        problem(response, 404)
    problem(admin.patch(address, json={"title": "Ours"}), 404)
    assert admin.delete(address).status_code == 204
    assert titles(owner) == []


def test_a_limited_caller_sees_only_cases_about_its_images(ward: Ward) -> None:
    owner, limited = ward.client(Scope.search), ward.limited()
    visible, hidden = ([record.image_id for record in records] for records in (ward.visible, ward.hidden))
    picture = Path(ward.visible[0].source).read_bytes()
    shared = {"shared": True}
    seen = save(owner, new_case([visible[0], hidden[0], visible[1]], title="Seen", **shared))
    save(owner, new_case([hidden[0], *visible[:2]], title="Hidden query", **shared))
    uploaded = save(owner, new_case(visible, title="Uploaded", search={}, **shared), picture)
    assert titles(limited) == ["Seen"]
    case = limited.get(f"/v1/cases/{seen['id']}").json
    assert [hit["image_id"] for hit in case["answers"]] == [visible[1]]
    assert hidden[0] not in json.dumps(case)
    problem(limited.get(uploaded["picture"]), 404)
    elsewhere = ward.client(Scope.search, collections=[ward.other.name])
    assert titles(elsewhere) == []
    problem(elsewhere.get(f"/v1/cases/{seen['id']}"), 404)
    counted = save(owner, new_case(visible[:3], verdict="Right for 70 of 86 images.", **shared))
    said = [who.get(f"/v1/cases/{counted['id']}").json["verdict"] for who in (owner, limited)]
    assert said == ["Right for 70 of 86 images.", ""]


@pytest.mark.parametrize("by_command", [True, False])
def test_erasing_a_patient_erases_its_cases(writable: Path, ids: list[str], by_command: bool) -> None:
    client = create_app(writable, settings.load()).test_client()
    with Collection(writable) as collection:
        records = {record.image_id: record for _, record in collection.iterate()}
    key = records[ids[0]].patient_key
    of_others = [image_id for image_id in ids if records[image_id].patient_key != key]
    save(client, new_case(ids, title="Of the patient"))
    uploaded = Path(records[ids[0]].source).read_bytes()
    save(client, new_case(of_others, title="Upload of the patient", search={}), uploaded)
    kept = save(client, new_case([of_others[0], ids[0], of_others[1]], title="Kept"))
    if by_command:
        assert command("collection", "erase-patient", str(key), "--collection", writable, "--yes")[0] == 0
    else:
        assert client.delete(f"/v1/patients/{key}").json["erased"] > 0
    assert titles(client) == ["Kept"]
    assert client.get(f"/v1/cases/{kept['id']}").json["missing"] == 0
    state = settings.load().state_folder
    assert not [path for path in state.iterdir() if ids[0].encode() in path.read_bytes()]


@pytest.mark.usefixtures("each_database")
@pytest.mark.parametrize(
    ("patient_key", "content_hash", "query_image"),
    [("key", "other", None), (None, "abc", None), (None, None, "abc-2")],
)
def test_a_query_of_a_patient_is_found_by_key_by_content_and_by_id(
    tmp_path: Path, patient_key: str | None, content_hash: str | None, query_image: str | None
) -> None:
    database = open_state(settings.load(state_folder=tmp_path))
    case = NewCase(title="Case", search=CaseSearch(image_id=query_image))
    picture = QueryPicture(b"png", content_hash) if content_hash else None
    saved_cases.add_case(database, "service", "knees", case, picture, patient_key)
    assert saved_cases.erase_from_cases(database, ["other key"], {"abd"}) == 0
    saved_cases.erase_from_cases(database, ["key"], {"abc", "abc-2"})
    assert not saved_cases.list_cases(database, Viewer("service", ["knees"], True, False))


@pytest.mark.parametrize("limited", [True, False])
def test_an_upload_without_a_header_has_the_patient_of_the_equal_picture(
    writable: Path, ids: list[str], tmp_path: Path, limited: bool
) -> None:
    """The case goes with the patient, also when the equal picture was deleted before or is hidden from the owner."""
    tokens = TokenStore(tmp_path / "state")
    active = settings.load(require_tokens=True, state_folder=tokens.file.parent)
    app = create_app(writable, active)
    owner, admin = (app.test_client() for _ in range(2))
    where = ["label=odd"] if limited else []  # the first image is even
    for client, scope, conditions in ((owner, Scope.search, where), (admin, Scope.admin, [])):
        _, text = tokens.create([scope], where=conditions)
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
    with Collection(writable) as collection:
        record = collection.record(ids[0])
    assert record.patient_key
    assert not record.instance  # a picture without a header
    saved = save(owner, new_case(ids, search={}), Path(record.source).read_bytes())
    assert record.patient_key not in json.dumps(saved)
    assert admin.delete(f"/v1/images/{ids[0]}").status_code == 204
    assert titles(owner) == ["Knee"]
    assert admin.delete(f"/v1/patients/{record.patient_key}").status_code == 200
    assert titles(owner) == []


def test_nothing_of_an_erased_patient_stays_in_the_files(tmp_path: Path) -> None:
    database = open_state(settings.load(state_folder=tmp_path))
    case = NewCase(title="Case", search=CaseSearch(image_id="abc"))
    saved_cases.add_case(
        database, "service", "knees", case, QueryPicture(b"pixels" * 2000, "abc"), "secret key"
    )
    erase_saved(settings.load(state_folder=tmp_path), ["secret key"], ["abc"])
    left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"saved_cases" in left
    assert b"pixels" not in left
    assert b"secret key" not in left


def test_an_upload_has_the_patient_of_its_header_and_the_content_of_its_file(ward: Ward, state: Path) -> None:
    record = next(
        record for record in ward.visible if record.instance and record.labels.get("modality") == "CT"
    )
    search = {"window": [40, 400]}
    saved = save(
        ward.client(Scope.search),
        new_case(["x"] * 3, search=search, marks=[], rounds=[]),
        Path(record.source).read_bytes(),
    )
    database = open_state(settings.load(state_folder=state))
    row = saved_cases.find_case(database, Viewer("", [saved["collection"]], True, False), saved["id"])
    assert row.content_hash == record.content_hash
    assert row.patient_key == record.patient_key


def test_the_page_of_a_case(client: FlaskClient, ids: list[str]) -> None:
    saved = save(client, new_case(ids, title="A <b>'", note="x"))
    page = client.get(f"/saved/cases/{saved['id']}")
    assert page.status_code == 200
    assert "<title>A &lt;b&gt;&#39; · cbir</title>" in page.text
    facts = facts_of(page.text)
    assert facts["case"] == client.get(f"/v1/cases/{saved['id']}").json
    shown = facts["images"][facts["case"]["answers"][0]["image_id"]]
    assert shown["card"]["finding"] in ("even", "odd")
    assert shown["links"]["thumbnail"].startswith("/v1/")
    gone = client.get("/saved/cases/0123456789abcdef")
    assert (gone.status_code, gone.mimetype) == (404, "text/html")
    assert "collection" not in gone.text.lower().split("<main")[1].split("</main")[0]


def test_the_client_saves_finds_and_exports_cases(app: Flask, pictures: list[Path], ids: list[str]) -> None:
    with Client("http://localhost", transport=httpx.WSGITransport(app)) as service:
        answer = service.search(pictures[-1], k=3, where="label=even")
        saved = service.save_case(
            "Upload",
            answer,
            query=pictures[-1],
            note="Note",
            judged={answer[0].id: 1},
            k=3,
            where="label=even",
        )
        assert [hit.image_id for hit in saved.answers] == [hit.id for hit in answer]
        assert saved.search.where == ["label=even"]
        assert saved.marks == saved.rounds[0]
        assert service.case_picture(saved.id).startswith(b"\x89PNG")
        assert not saved.outlier
        strange = service.search(ids[0], k=2)
        strange.query.outlier = True
        by_id = service.save_case("By id", strange, query=ids[0], verdict="Odd.")
        assert (service.case(by_id.id).outlier, service.case(by_id.id).verdict) == (True, "Odd.")
        assert [case.title for case in service.cases(limit=1)] == ["By id", "Upload"]
        assert [case.id for case in service.cases("note")] == [saved.id]
        assert service.change_case(by_id.id, shared=True) == service.case(by_id.id)
        assert service.export_case(saved.id, ranks=[]).count(b"data:image/jpeg") == 1
        assert service.export_case(saved.id, label_keys=[]).count(b"label:") == 0
        assert service.export_case(saved.id).count(b"label: even") == 3
        service.delete_case(saved.id)
        assert [case.title for case in service.cases()] == ["By id"]
