"""Several examples and judgements on the query path, the command line and the service."""

import io
import json

import numpy as np
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from cbir import settings
from cbir.api.main import app
from cbir.errors import InvalidInput, NotFound
from cbir.search import Request, Searcher, Stopwatch
from cbir.store import Collection
from cbir.store.base import profile as profiles
from service.app import create_app
from tests.cbir.store.conftest import entry


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    created = Collection.create(tmp_path_factory.mktemp("feedback") / "collection", profiles.get("tamura"))
    with created.writer() as writer:
        writer.add([entry(n, patient=f"p{n // 5}", labels={"label": "ab"[n % 2]}) for n in range(40)])
        writer.finish()
    return created


@pytest.fixture(scope="module")
def ids(collection):
    return [record.image_id for _, record in collection.iterate()]


@pytest.fixture
def ask(collection):
    searcher = Searcher(collection, settings.load())
    return lambda **given: searcher.by_examples([], Request(**given), Stopwatch())


def said_of(ids, relevance):
    return [{"image_id": name, "relevance": relevance} for name in ids]


def test_all_examples_are_left_out(ask, ids):
    result = [hit.image_id for hit in ask(examples=ids[:3], k=40).results]
    assert sorted(result) == sorted(ids[3:])


def test_judged_images_stand_at_both_ends(ask, ids):
    feedback = said_of(ids[10:12], 1.0) + said_of(ids[5:7], -1.0) + said_of(ids[20:21], 0.0)
    answer = ask(examples=ids[:1], feedback=feedback, k=40)
    result = [hit.image_id for hit in answer.results]
    assert set(result[:2]) == set(ids[10:12])
    assert set(result[-2:]) == set(ids[5:7])
    assert answer.rerank.method == "feedback"
    scores = [hit.score for hit in answer.results]
    assert scores == sorted(scores, reverse=True)


def test_judged_images_are_shown_beyond_the_candidates_too(collection, ask, ids):
    last = ask(examples=ids[:1], rerank="none", k=40).results[-1].image_id
    searcher = Searcher(
        collection, settings.load().model_copy(update={"indexed_candidates": 2, "indexed_sample": 3})
    )
    request = Request(examples=ids[:1], feedback=said_of([last], 1.0), k=2)
    assert searcher.by_examples([], request, Stopwatch()).results[0].image_id == last


def test_without_reranking_judgements_are_heeded_and_nothing_is_learnt(ask, ids):
    plain = [hit.image_id for hit in ask(examples=ids[:1], rerank="none", k=40).results]
    answer = ask(examples=ids[:1], rerank="none", feedback=said_of(plain[-1:], 1.0), k=40)
    assert [hit.image_id for hit in answer.results] == [plain[-1], *plain[:-1]]
    assert answer.rerank.method == "none"


@pytest.mark.parametrize("method", ["feedback", "eprf", "nsu-eprf", "svm-eprf", "fuzzy-eprf", "nprf"])
def test_the_method_of_the_request_learns_with_its_parameters(ask, ids, method):
    parameters = {"C": 2.5, "seed": 3}
    feedback = said_of(ids[10:12], 1.0) + said_of(ids[5:7], -1.0)
    answer = ask(examples=ids[:2], feedback=feedback, rerank=method, parameters=parameters, k=40)
    assert answer.rerank.method == method
    assert answer.rerank.reason == ""
    assert parameters.items() <= answer.rerank.parameters.items()
    result = [hit.image_id for hit in answer.results]
    assert (set(result[:2]), set(result[-2:])) == (set(ids[10:12]), set(ids[5:7]))
    other = ask(examples=ids[:2], feedback=feedback, rerank=method, parameters=parameters | {"C": 1e-4}, k=40)
    assert [hit.score for hit in other.results] != [hit.score for hit in answer.results]


def test_auto_and_a_default_for_one_example_are_feedback(collection, ids):
    for default in ("auto", "diffusion", "eprf"):
        searcher = Searcher(collection, settings.load().model_copy(update={"rerank": default}))
        facts = searcher.by_examples([], Request(examples=ids[:2]), Stopwatch()).rerank
        assert facts.method == ("eprf" if default == "eprf" else "feedback")
        assert ("several examples" in facts.reason) == (default != "eprf")


def test_methods_for_one_example_are_refused(ask, ids):
    with pytest.raises(InvalidInput, match=r"diffusion takes one example.*feedback, none, eprf"):
        ask(examples=ids[:2], rerank="diffusion")
    with pytest.raises(InvalidInput, match="feedback learns from several examples"):
        ask(examples=ids[:1], rerank="feedback")


def test_the_nearest_example_counts(ask, ids):
    both = {hit.image_id: hit.distance for hit in ask(examples=ids[:2], rerank="none", k=40).results}
    one, other = (
        {hit.image_id: hit.distance for hit in ask(examples=[name], rerank="none", k=40).results}
        for name in ids[:2]
    )
    for name in ids[2:]:
        assert both[name] == pytest.approx(min(one[name], other[name]), rel=1e-5)


def test_what_does_not_fit_is_refused(ask, ids):
    with pytest.raises(NotFound, match="nowhere"):
        ask(examples=ids[:1], feedback=said_of(["nowhere"], 1.0))
    with pytest.raises(NotFound, match="nowhere"):
        ask(examples=["nowhere"])
    with pytest.raises(InvalidInput, match="more than once"):
        ask(examples=ids[:1], feedback=said_of(ids[1:2] * 2, 1.0))
    with pytest.raises(InvalidInput, match="images are needed"):
        ask()
    for method in ("none", "eprf", "feedback"):
        with pytest.raises(InvalidInput, match="has no parameter 'nonsense'"):
            ask(examples=ids[:2], rerank=method, parameters={"nonsense": 1})
    for relevance in (1.01, -2, float("nan"), float("inf")):
        with pytest.raises(ValidationError):
            Request(feedback=said_of(ids[:1], relevance))
    with pytest.raises(ValidationError):
        Request(feedback=said_of(map(str, range(301)), 1.0))


@pytest.fixture
def client(collection):
    return create_app(str(collection.folder), settings.load()).test_client()


def post(client, expected=200, **given):
    answer = client.post("/v1/search", **given)
    assert answer.status_code == expected, answer.text
    return answer.json


def test_service_takes_examples_and_feedback(client, ids):
    expected_hits = {"examples": ids[:2], "feedback": said_of(ids[9:10], 1.0), "k": 5}
    answer = post(client, json=expected_hits)
    assert answer["results"][0]["image_id"] == ids[9]
    assert not {hit["image_id"] for hit in answer["results"]} & set(ids[:2])
    with_id = post(
        client,
        json={"image_id": ids[0], "examples": ids[1:2]} | {k: expected_hits[k] for k in ("feedback", "k")},
    )
    assert with_id["results"] == answer["results"]


def test_service_takes_several_files_and_json_in_a_form(client, ids):
    import cv2

    random = np.random.default_rng(0)
    files = [cv2.imencode(".png", random.integers(0, 256, (40, 40), np.uint8))[1].tobytes() for _ in range(2)]
    form = {
        "image": [(io.BytesIO(data), "x.png") for data in files],
        "feedback": json.dumps(said_of(ids[:1], -1.0)),
        "examples": ids[1:3],
        "k": "40",
    }
    answer = post(client, data=form)
    result = [hit["image_id"] for hit in answer["results"]]
    assert result[-1] == ids[0]
    assert len(result) == 38


@pytest.mark.parametrize(
    ("given", "status", "says"),
    [
        ({"examples": ["nowhere"]}, 404, "nowhere"),
        ({"examples": "ID", "feedback": [{"image_id": "nowhere", "relevance": 1}]}, 404, "nowhere"),
        ({"examples": "ID", "feedback": [{"image_id": "ID", "relevance": 2}]}, 422, "feedback.0.relevance"),
        ({"examples": "ID", "feedback": [{"image_id": "ID"}]}, 422, "relevance"),
        ({"examples": "ID", "feedback": {"ID": 1}}, 422, "feedback"),
        ({"examples": [1]}, 422, "examples"),
        ({"examples": []}, 422, "image_id"),
        ({"examples": "ID", "region": "1,1,2,2"}, 422, "region"),
        ({"examples": [str(n) for n in range(21)]}, 422, "examples"),
    ],
)
def test_service_refuses(client, ids, given, status, says):
    body = json.loads(json.dumps(given).replace('"ID"', f'"{ids[0]}"'))
    if isinstance(body.get("examples"), str):
        body["examples"] = [body["examples"]]
    assert says in post(client, status, json=body)["detail"]


def search(*arguments):
    done = CliRunner().invoke(app, ["search", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_command_takes_examples_and_judgements(collection, ids, tmp_path):
    rest = ["--collection", collection.folder, "--format", "json", "-k", 40]
    told = ["--relevant", ids[30], "--not-relevant", ids[31]]
    result = json.loads(search(f"id:{ids[0]}", f"id:{ids[1]}", *told, *rest))["results"]
    assert (result[0]["image_id"], result[-1]["image_id"]) == (ids[30], ids[31])
    file = tmp_path / "said.json"
    file.write_text(json.dumps(said_of(ids[30:31], 1) + said_of(ids[31:32], -1)))
    assert json.loads(search(f"id:{ids[0]}", f"id:{ids[1]}", "--feedback", file, *rest))["results"] == result


@pytest.mark.parametrize("text", ["{", "{}", '[{"image_id": "a", "relevance": 3}]', "[1]", None])
def test_command_refuses_a_file_of_something_else(collection, ids, tmp_path, text):
    file = tmp_path / "said.json"
    if text is not None:
        file.write_text(text)
    given = ["search", f"id:{ids[0]}", "--feedback", file, "--collection", collection.folder]
    done = CliRunner().invoke(app, list(map(str, given)))
    assert isinstance(done.exception, InvalidInput)
    assert "--feedback" in str(done.exception)
