"""Series compared slice by slice, over HTTP, DICOMweb and on the command line, against sums over all pairs."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from flask.testing import FlaskClient
from pydicom import Dataset

from cbir import settings
from cbir.errors import QueryCancelled
from cbir.evaluation.datasets.phantoms import write_phantom_series, write_phantoms
from cbir.search import Searcher, Stopwatch
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import DicomScope
from cbir.system.threads import time_limit
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.features.similar.messages import SimilarAnswer
from service.features.similar.similar import MAX_SLICES, SimilarRequest, find_similar
from tests.service.conftest import cbir, command, copy_folder, made_once, problem, refusal

pytestmark = pytest.mark.slow  # for indexing

SERIES, SLICES = 6, 4  # of two series a patient; and one more series of a single slice


def _build(folder: Path) -> None:
    images, labels = folder / "images", folder / "images" / "labels.csv"
    many = write_phantom_series(images / "many", SERIES, size=32, slices=SLICES)
    single = write_phantom_series(images / "single", 1, size=32, slices=1, seed=5)
    write_phantoms(images / "pictures", 2, size=32)
    header, *rows = many.read_text().splitlines()
    rows = [f"many/{row}" for row in rows] + [f"single/{row}" for row in single.read_text().splitlines()[1:]]
    labels.write_text("\n".join([header, *rows]))
    options = ["--jobs", "1", "--profile", "huang2012", "--labels", labels]
    cbir("index", images, *options, "--collection", folder / "collection")


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = made_once(tmp_path_factory, "maxsim", _build)
    return copy_folder(made / "collection", tmp_path_factory.mktemp("maxsim") / "collection")


@pytest.fixture(scope="module")
def client(collection: Path) -> FlaskClient:
    return create_app(collection, settings.load()).test_client()


def series_in(folder: Path) -> dict[str, list[tuple[Record, np.ndarray]]]:
    """Records and normalised vectors of each series, in the order in which they were added."""
    series: dict[str, list[tuple[Record, np.ndarray]]] = defaultdict(list)
    with Collection(folder) as opened:
        statistics = opened.view().statistics
        for _, record in opened.iterate():
            if record.instance:
                vector = statistics.normalise(opened.vector(record.image_id)).astype(float)
                series[record.series].append((record, vector))
    return series


def typical_length(folder: Path) -> float:
    with Collection(folder) as opened:
        gallery = opened.view().gallery
        return float(
            np.mean([np.sum(vector.astype(float) ** 2) for vector in np.concatenate(gallery.blocks)])
        )


def expected(folder: Path, uid: str) -> dict[str, tuple[float, dict[str, str]]]:
    """Score of each other series for the series `uid`, and its best slice for each slice, by two loops."""
    series, length = series_in(folder), typical_length(folder)
    scores = {}
    for other, slices in series.items():
        if other == uid:
            continue
        total, matches = 0.0, {}
        for query, vector in series[uid]:
            values = [1 - np.sum((vector - each) ** 2) / (2 * length) for _, each in slices]
            total += max(values)
            matches[query.image_id] = slices[int(np.argmax(values))][0].image_id
        scores[other] = total / len(series[uid]), matches
    return scores


def query_of(folder: Path, number: int = 0) -> dict[str, str]:
    record = [*series_in(folder).values()][number][0][0]
    return {"study": record.study, "series": record.series, "level": "series", "combine": "maxsim"}


def test_as_sums_over_all_pairs_of_slices(client: FlaskClient, collection: Path) -> None:
    for number in (0, 3, SERIES):  # the last one has a single slice
        query = query_of(collection, number)
        answer = client.get("/v1/similar", query_string=query).json
        plain = expected(collection, query["series"])
        assert answer["total"] == len(answer["results"]) == len(plain) == SERIES
        assert {item["series"]: item["score"] for item in answer["results"]} == {
            uid: pytest.approx(score, abs=1e-4) for uid, (score, _) in plain.items()
        }
        scores = [item["score"] for item in answer["results"]]
        assert scores == sorted(scores, reverse=True)
        assert (answer["rerank"]["method"], answer["combine"]) == ("none", "maxsim")
        assert answer["query"]["images"] == (1 if number == SERIES else SLICES)
        for rank, item in enumerate(answer["results"], start=1):
            matches = {match["query"]: match["image_id"] for match in item["matches"]}
            assert matches == plain[item["series"]][1]
            assert item["score"] == pytest.approx(np.mean([m["score"] for m in item["matches"]]), abs=1e-8)
            assert item["found"] == len(set(matches.values()))
            best = max(item["matches"], key=lambda match: match["score"])
            assert (item["rank"], item["best"]["rank"], item["best"]["image_id"]) == (
                rank, rank, best["image_id"]
            )  # fmt: skip
            assert item["best"]["score"] == best["score"]


def test_distances_are_those_of_a_search(client: FlaskClient, collection: Path) -> None:
    query = query_of(collection, SERIES)  # of a single slice: the series of the nearest images
    (slice_, _), *_ = series_in(collection)[query["series"]]
    hits = client.post("/v1/search", json={"image_id": slice_.image_id, "k": 100, "rerank": "none"}).json[
        "results"
    ]
    nearest = {}
    for hit in hits:
        if hit["dicom"]:
            nearest.setdefault(hit["dicom"]["series"], hit)
    answer = client.get("/v1/similar", query_string=query).json["results"]
    assert [item["series"] for item in answer] == list(nearest)
    for item in answer:
        assert item["best"]["image_id"] == nearest[item["series"]]["image_id"]
        assert item["best"]["distance"] == pytest.approx(nearest[item["series"]]["distance"], abs=1e-3)


def test_studies_and_instances(client: FlaskClient, collection: Path) -> None:
    query = query_of(collection)
    series = client.get("/v1/similar", query_string=query).json["results"]
    studies = client.get("/v1/similar", query_string=query | {"level": "study"}).json["results"]
    assert [(item["study"], item["score"]) for item in studies] == [  # each study has one series
        (item["study"], item["score"]) for item in series
    ]
    instances = client.get("/v1/similar", query_string=query | {"level": "instance", "limit": 100}).json
    assert instances["total"] == (SERIES - 1) * SLICES + 1
    assert all(
        {m["instance"] for m in item["matches"]} == {item["instance"]} for item in instances["results"]
    )


def test_filters_exclusion_and_pages(client: FlaskClient, collection: Path) -> None:
    query, series = query_of(collection), series_in(collection)
    own = series[query["series"]][0][0].patient_key
    others = {uid for uid, slices in series.items() if slices[0][0].patient_key != own}
    left = client.get("/v1/similar", query_string=query | {"exclude": "patient"}).json
    assert {item["series"] for item in left["results"]} == others
    assert len(others) == SERIES - 1
    lesions = client.get("/v1/similar", query_string=query | {"where": "slice<=2"}).json["results"]
    assert len(lesions) == SERIES
    assert all(
        match["image_id"] in {r.image_id for r, _ in series[item["series"]] if int(r.labels["slice"]) <= 2}
        for item in lesions
        for match in item["matches"]
    )
    assert client.get("/v1/similar", query_string=query | {"where": "slice=99"}).json["results"] == []
    whole = client.get("/v1/similar", query_string=query).json["results"]
    pages = [
        client.get("/v1/similar", query_string=query | {"limit": 2, "offset": offset}).json["results"]
        for offset in range(0, SERIES + 2, 2)
    ]
    assert [item for page in pages for item in page] == whole
    assert pages[-1] == []


def test_deleted_slices_match_nothing(collection: Path, tmp_path: Path) -> None:
    folder = copy_folder(collection, tmp_path / "own")
    query, series = query_of(folder), [*series_in(folder).values()]
    gone = [series[1][0][0], series[1][2][0], *(record for record, _ in series[2]), series[0][1][0]]
    with Collection(folder) as opened, opened.writer() as writer:
        writer.delete([record.image_id for record in gone])
    answer = create_app(folder, settings.load()).test_client().get("/v1/similar", query_string=query).json
    assert answer["query"]["images"] == SLICES - 1
    assert {item["series"]: item["score"] for item in answer["results"]} == {
        uid: pytest.approx(score, abs=1e-4) for uid, (score, _) in expected(folder, query["series"]).items()
    }
    assert len(answer["results"]) == SERIES - 1
    removed = {record.image_id for record in gone}
    named = {
        match[side] for r in answer["results"] for match in r["matches"] for side in ("query", "image_id")
    }
    assert not named & removed


def test_dicom_json_names_the_matching_slices(client: FlaskClient, collection: Path) -> None:
    query = query_of(collection)
    address = f"/dicomweb/studies/{query.pop('study')}/series/{query.pop('series')}/similar"
    plain = client.get("/v1/similar", query_string=query_of(collection)).json["results"]
    series = series_in(collection)
    instances = {record.image_id: record.instance for slices in series.values() for record, _ in slices}
    datasets = [Dataset.from_json(item) for item in client.get(address, query_string=query).json]
    assert len(datasets) == SERIES
    for dataset, item in zip(datasets, plain, strict=True):
        block = dataset.private_block(0x0077, "CBIR SIMILARITY")
        assert block[1].value == item["score"]
        pairs = [
            (inner[0x11].value, inner[0x13].value, inner[0x15].value)
            for inner in (part.private_block(0x0077, "CBIR SIMILARITY") for part in block[0x10].value)
        ]
        assert pairs == [
            (instances[match["query"]], match["instance"], match["score"]) for match in item["matches"]
        ]
    assert "00771010" not in client.get(address, query_string={"level": "series"}).json[0]
    narrow = client.get(address, query_string=query | {"limit": 2})
    assert f"{SERIES - 2} additional" in narrow.headers["Warning"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rerank": "eprf"}, "rerank: eprf"),
        ({"rerank": "auto"}, "rerank: auto"),
        ({"rerank": "none", "parameters": "P=3"}, "parameters"),
        ({"depth": "5"}, "depth"),
        ({"where": "nonsense"}, "nonsense"),
    ],
)
def test_options_without_a_meaning_are_refused(
    client: FlaskClient, collection: Path, options: dict[str, str], message: str
) -> None:
    query = query_of(collection) | options
    assert message in problem(client.get("/v1/similar", query_string=query), 422)
    page = client.get("/similar", query_string=query)
    assert page.status_code == 422


def test_it_may_name_no_reranking(client: FlaskClient, collection: Path) -> None:
    query = query_of(collection)
    named = client.get("/v1/similar", query_string=query | {"rerank": "none"}).json
    assert named["results"] == client.get("/v1/similar", query_string=query).json["results"]


def test_the_framed_page_opens_the_best_slices(client: FlaskClient, collection: Path) -> None:
    query = query_of(collection) | {"exclude": "study"}
    page = client.get("/similar", query_string=query)
    assert page.status_code == 200
    for item in client.get("/v1/similar", query_string=query).json["results"]:
        assert item["best"]["image_id"] in page.text


def test_a_limited_caller_gets_visible_slices_alone(collection: Path, tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "state")
    _, text = tokens.create([Scope.search], where=["slice<=2"], collections=["collection"])
    app = create_app(collection, settings.load(require_tokens=True, state_folder=tmp_path / "state"))
    answer = (
        app.test_client()
        .get("/v1/similar", query_string=query_of(collection), headers={"Authorization": f"Bearer {text}"})
        .json
    )
    assert answer["query"]["images"] == 2
    visible = {
        record.image_id
        for slices in series_in(collection).values()
        for record, _ in slices
        if int(record.labels["slice"]) <= 2
    }
    assert len(answer["results"]) == SERIES
    named = {m[side] for r in answer["results"] for m in r["matches"] for side in ("query", "image_id")}
    assert named <= visible
    (line,) = (tmp_path / "state" / "audit.jsonl").read_text().splitlines()
    assert set(json.loads(line)["images"]) == named


def test_images_by_study_series_and_instance(collection: Path) -> None:
    series = series_in(collection)
    with Collection(collection) as opened:
        images = sum(map(len, series.values()))
        for levels, groups in ((1, len(series)), (2, len(series)), (3, images)):
            numbers, of_image = opened.group_images(levels)
            assert len(numbers) == images < len(opened.view().gallery)  # the others are no DICOM images
            assert set(of_image.tolist()) == set(range(groups))


def test_at_most_a_hundred_slices_of_the_query(collection: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_SLICES == 100
    monkeypatch.setattr("service.features.similar.similar.MAX_SLICES", 2)
    query = query_of(collection)
    with Collection(collection) as opened:
        similar = find_similar(
            Searcher(opened, settings.load()),
            DicomScope(query["study"], query["series"]),
            SimilarRequest(level="series", combine="maxsim"),  # type: ignore[arg-type]
            Stopwatch(),
        )
    slices = sorted(series_in(collection)[query["series"]], key=lambda item: item[0].instance)
    assert {r.image_id for r in similar.queries} == {slices[0][0].image_id, slices[-1][0].image_id}
    assert all(len(group.matches) == 2 for group in similar.groups)


def test_a_deadline_cancels_it(collection: Path) -> None:
    query = query_of(collection)
    request = SimilarRequest(level="series", combine="maxsim")  # type: ignore[arg-type]
    scope = DicomScope(query["study"], query["series"])
    with Collection(collection) as opened, time_limit(1e-9), pytest.raises(QueryCancelled):
        find_similar(Searcher(opened, settings.load()), scope, request, Stopwatch())


def test_the_command(client: FlaskClient, collection: Path) -> None:
    query = query_of(collection)
    place = ["--collection", collection, "--study", query["study"], "--series", query["series"]]
    code, out, _ = command("search", *place, "--combine", "maxsim", "--format", "json")
    assert code == 0
    over_http = SimilarAnswer.model_validate(client.get("/v1/similar", query_string=query).json)
    printed = SimilarAnswer.model_validate(json.loads(out))
    assert [(item.series, item.score, item.matches) for item in printed.results] == [
        (item.series, item.score, item.matches) for item in over_http.results
    ]
    code, out, _ = command("search", *place, "-k", "2")
    assert code == 0
    assert "max over" in out
    code, out, _ = command("search", *place, "--level", "instance", "--combine", "maxsim", "-k", "1")
    assert code == 0
    assert "depth" in refusal("search", *place, "--combine", "maxsim", "--depth", "3")
    assert "parameters" in refusal("search", *place, "--combine", "maxsim", "--parameter", "P=3")
    code, out, _ = command("search", *place, "--rerank", "eprf", "--parameter", "P=3", "--format", "json")
    assert (code, json.loads(out)["rerank"]["parameters"]["P"]) == (0, 3)
    assert "--series" in refusal("search", "--collection", collection, "--study", "1.2", "--instance", "1.3")
    code, _, err = command("search", "--collection", collection, "--study", "1.2.3")
    assert code != 0
    assert "study 1.2.3" in err
