"""Client tests against the real service, in this process and once over the network."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image as PillowImage
from pydicom.data import get_testdata_file

from cbir import settings
from cbir.errors import InvalidInput, NotFound, UnreadableImage
from cbir.search.search_options import MAX_BATCH
from service.app import create_app
from service.client import Client, ServiceError, ServiceUnreachable, collection_messages, messages
from service.client.search_methods import JSON_BYTES, prepare_search, split_batch
from tests.service.conftest import ids, indexed, pictures, serving, writable  # noqa: F401  (fixtures)


@pytest.fixture
def client(writable: Path, pictures: list[Path]) -> Iterator[Client]:  # noqa: F811
    in_force = settings.load(keep_originals=True, index_roots=(str(pictures[0].parent),))
    app = create_app([writable], in_force)
    transport = httpx.WSGITransport(app=app)
    with Client("http://localhost", collection="own", transport=transport) as opened:
        yield opened


@pytest.mark.slow
def test_search(client: Client, pictures: list[Path], ids: list[str]) -> None:  # noqa: F811
    by_id = client.search(ids[0], k=3, rerank="none", where=["label=odd"])
    assert len(by_id.results) == 3
    assert {hit.labels["label"] for hit in by_id.results} == {"odd"}
    by_file = client.search(pictures[0], k=3, rerank="none", where=["label=odd", "severity<9"])
    by_bytes = client.search(pictures[0].read_bytes(), k=3, rerank="none", where=["label=odd"])
    assert by_file.results == by_bytes.results == by_id.results
    assert client.search(ids[0], k=100, exclude_patient="patient-0").results[0].image_id not in ids[:4]
    assert client.render(pictures[0]).startswith(b"\x89PNG")


def test_search_has_the_shape_of_the_python_api(client: Client, pictures: list[Path], ids: list[str]) -> None:  # noqa: F811
    hits = client.search(str(pictures[0]), k=3, rerank="none", where="label=odd")
    assert len(hits) == 3
    assert [hit.id for hit in hits] == [hit.image_id for hit in hits.results]
    assert hits[0].source is None  # paths may name patients
    samples = np.asarray(PillowImage.open(pictures[0]))
    for same in (samples, PillowImage.open(pictures[0]), f"id:{ids[0]}", [pictures[0]]):
        assert client.search(same, k=3, rerank="none", where=["label=odd"]).results == hits.results
    several = client.search([ids[0], pictures[1], ids[2]], k=100)
    assert several.results == client.search(pictures[1], examples=[ids[0], ids[2]], k=100).results
    assert (
        client.search([ids[0], ids[2]], k=5).results == client.search(examples=[ids[0], ids[2]], k=5).results
    )
    assert hits._repr_html_().count("data:image/jpeg;base64,") == 3
    assert len(client) == len(ids)
    with pytest.raises(InvalidInput, match="a file, its content or an array, not int"):
        client.search(7)


def test_conditions_are_one_text_or_several(client: Client) -> None:
    odd = [record.image_id for record in client.images(["label=odd"])]
    assert odd
    assert [record.image_id for record in client.images("label=odd")] == odd
    assert [record.image_id for record in client.image_page("label=odd").items] == odd


def test_numbers_of_numpy(client: Client, pictures: list[Path], ids: list[str]) -> None:  # noqa: F811
    numbers: dict[str, Any] = {"k": np.int64(3), "feedback": {ids[4]: np.float32(1)}}
    for query in (ids[0], pictures[0]):
        same = client.search(query, k=3, feedback={ids[4]: 1.0})
        assert client.search(query, **numbers).results == same.results
        with pytest.raises(InvalidInput, match="cannot be sent as JSON"):
            client.search(query, feedback={ids[4]: np.nan})


@pytest.mark.parametrize("name", ["/images/Jane Doe", "Doe^Jane.dcm", "id:../x", ""])
def test_a_mistyped_path_is_not_sent(name: str) -> None:
    with Client("http://127.0.0.1:9") as client:
        for call in (client.search, client.grade):
            with pytest.raises((NotFound, UnreadableImage)):
                call(name)


def test_hits_are_shown_when_the_service_is_gone(client: Client, ids: list[str]) -> None:  # noqa: F811
    hits = client.search(ids[0], k=3)
    client.close()
    assert hits._repr_html_().count("no picture") == 3


def test_files_are_named_where_the_settings_allow_it(writable: Path, ids: list[str]) -> None:  # noqa: F811
    transport = httpx.WSGITransport(app=create_app([writable], settings.load(show_sources=True)))
    with Client("http://localhost", collection="own", transport=transport) as client:
        assert Path(str(client.search(ids[0], k=1)[0].source)).is_file()


def test_a_service_that_is_not_there() -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(ServiceUnreachable, match=r"127\.0\.0\.1:9"):
        client.health()
    assert issubclass(ServiceUnreachable, httpx.ConnectError)


def test_search_by_text_needs_a_text_tower(client: Client) -> None:
    with pytest.raises(ServiceError, match="the profile huang2012 has no text tower"):
        client.search(text="knee", k=3, where=["label=odd"])
    with pytest.raises(InvalidInput, match="text: search with it or with a file"):
        client.search(b"image", text="knee")


def test_search_with_examples_and_judgements(client: Client, pictures: list[Path], ids: list[str]) -> None:  # noqa: F811
    stated = {ids[4]: 1.0, ids[5]: -1.0}
    result = [hit.image_id for hit in client.search(None, examples=ids[:2], feedback=stated, k=100).results]
    assert (result[0], result[-1]) == (ids[4], ids[5])
    assert not {*ids[:2]} & {*result}
    assert [
        hit.image_id for hit in client.search(ids[0], examples=ids[1:2], feedback=stated, k=100).results
    ] == result
    by_file = client.search(pictures[:2], examples=ids[2:3], feedback=stated, k=100)
    assert by_file.results[0].image_id == ids[4]
    assert ids[2] not in {hit.image_id for hit in by_file.results}


def test_regions_and_windows(client: Client, pictures: list[Path], ids: list[str]) -> None:  # noqa: F811
    part = (8, 16, 40, 32)
    of_file = client.search(pictures[0], k=5, region=part)
    assert client.search(ids[0], k=5, region=part).results == of_file.results
    assert (of_file.query.width, of_file.query.height) == part[2:]
    assert client.picture(ids[0], region=part) == client.render(pictures[0], region=part)
    scan = Path(str(get_testdata_file("CT_small.dcm")))
    assert client.render(scan, window=(40, 80)) != client.render(scan)
    assert client.search(scan, k=3, window=(40, 80)).results
    for refused in ({"frame": 1}, {"window": (40.0, 80.0)}):
        with pytest.raises(InvalidInput, match="only of a file"):
            client.search(ids[0], **refused)


def test_the_service_itself(client: Client) -> None:
    assert client.health() == client.alive()
    assert "cbir_collection_images" in client.metrics()
    assert "/v1/search" in client.openapi()["paths"]


def test_life_cycle_of_an_image(client: Client, pictures: list[Path]) -> None:  # noqa: F811
    data = pictures[-1].read_bytes()
    added = client.add([pictures[-1], data], {"label": "new", "patient": "Jane"}, idempotency_key="1")
    assert [item.outcome for item in added.images] == ["added", "duplicate"]
    image_id = added.ids[0]
    assert client.original(image_id) == data
    assert client.thumbnail(image_id).startswith(b"\xff\xd8")
    assert client.picture(image_id).startswith(b"\x89PNG")
    state = client.etag(image_id)
    changed = client.set_labels(image_id, {"label": None, "view": "AP"}, if_match=state)
    assert changed.labels == {"view": "AP"}
    with pytest.raises(ServiceError) as stale:
        client.set_labels(image_id, {"view": "PA"}, if_match=state)
    assert stale.value.problem.status == 412
    assert client.image(image_id) == changed
    client.delete(image_id)
    with pytest.raises(ServiceError, match="404"):
        client.image(image_id)
    assert client.add(data, restore=True).ids == [image_id]


def test_lists(client: Client, ids: list[str]) -> None:  # noqa: F811
    assert [image.image_id for image in client.images(limit=7)] == ids
    assert [image.image_id for image in client.images(["label=odd"], limit=4)] == ids[1::2]
    assert client.image_page(limit=1).next
    assert [change.what for change in client.history(limit=1)][-1] == "added"


def test_the_collection(client: Client, ids: list[str]) -> None:  # noqa: F811
    assert client.collections().collections == ["own"]
    assert client.collection().images == client.statistics().images == client.ready().images == len(ids)
    assert client.profile().descriptor == "huang2012"
    key = client.image(ids[0]).patient_key
    assert key
    assert client.erase_patient(key).erased == 4


@pytest.mark.slow
def test_jobs(client: Client, pictures: list[Path]) -> None:  # noqa: F811
    job = client.index(str(pictures[-1].parent), processes=1)
    ended = client.wait(job.job, seconds=120)
    assert ended.state == "done", ended
    assert client.jobs() == [ended]
    assert client.job(job.job) == ended
    with pytest.raises(ServiceError) as over:
        client.cancel(job.job)
    assert over.value.problem.type == "/docs/errors#conflict"


def test_problems(client: Client, writable: Path) -> None:  # noqa: F811
    from cbir.store.base.collection_folder import writer_lock

    with writer_lock(writable), pytest.raises(ServiceError) as busy:
        client.set_labels("x", {"a": "b"})
    assert busy.value.problem.status == 503
    assert busy.value.retry_after
    with pytest.raises(ServiceError) as missing:
        client.job("../../healthz")
    assert missing.value.problem.status == 404
    assert missing.value.retry_after is None


def test_response_of_a_proxy() -> None:
    gateway = httpx.MockTransport(lambda _: httpx.Response(502, text="no upstream"))
    with Client("http://localhost", transport=gateway) as client, pytest.raises(ServiceError) as error:
        client.ready()
    assert error.value.problem.detail == "no upstream"


@pytest.mark.slow
def test_over_the_network(writable: Path, ids: list[str], pictures: list[Path]) -> None:  # noqa: F811
    with serving(writable) as running, Client(running.address) as client:
        assert len(client.search(ids[0], k=5).results) == 5
        added = client.add(pictures[-1])
        assert client.search(pictures[-1], k=1).query.image_id == added.ids[0]


def test_hits_as_a_table(client: Client, ids: list[str]) -> None:  # noqa: F811
    pytest.importorskip("pandas")
    hits = client.search(ids[0], k=3)
    assert hits.to_pandas()["image_id"].tolist() == [hit.id for hit in hits]
    grouped = client.search(ids[0], k=2, group_by="label", group_size=2)
    assert grouped.to_pandas()["more"].sum() == 2 * (len(ids) - 5)


def test_groups_thresholds_vectors_and_labels(client: Client, pictures: list[Path], ids: list[str]) -> None:  # noqa: F811
    for query in (ids[0], pictures[0]):
        grouped = client.search(query, k=2, group_by="label", group_size=2, max_distance=1e6)
        assert [hit.group and hit.group.rank for hit in grouped] == [1, 1, 2, 2]
        score = grouped[0].score
        assert all(hit.score >= score for hit in client.search(query, score_threshold=score))
    assert len(client.search(ids[0], k=100, where=["label=odd", "label=even"])) == len(ids) - 1
    raw = client.vectors(ids[:2], raw=True)
    assert raw.items[:1] == client.vector(ids[0], raw=True).items
    values = np.array(raw.items[0].values, np.float32)
    assert client.search(vector=values, profile=raw.profile_hash, k=1, rerank="none")[0].id == ids[0]
    with pytest.raises(ServiceError, match="vectors of another one cannot be compared"):
        client.search(vector=values, profile="tamura")
    assert client.search(vector=[list(map(float, values))], k=1, rerank="none")[0].id == ids[0]
    assert {row.key: row.values for row in client.labels("label=odd")}["label"] == 1
    assert client.label_values("severity", limit=1, offset=3).items[0].images == 1
    with pytest.raises(ServiceError, match="did you mean 'severity'"):
        client.label_values("severty")
    with pytest.raises(InvalidInput, match="vector: search with it or with a file"):
        client.search(pictures[0], vector=values)
    with pytest.raises(TypeError, match="no option 'wher'"):
        client.search(ids[0], wher="label=odd")


@pytest.mark.slow
def test_a_batch_has_an_outcome_for_each_query(client: Client, pictures: list[Path], ids: list[str]) -> None:  # noqa: F811
    vector = client.vector(ids[2], raw=True).items[0].values
    queries: list[Any] = [
        pictures[0], ids[1], {"vector": vector, "k": 1}, "nobody", b"no image", [pictures[0], pictures[1]],
        {"query": pictures[2], "where": "label=odd"}, "no file.png", {"vector": [1.0]}, pictures[3],
    ]  # fmt: skip
    outcomes: list[Any] = client.search_batch(queries, k=3, rerank="none", where="label?")
    for number in (0, 1, 9):
        single = client.search(queries[number], k=3, rerank="none", where="label?")
        assert outcomes[number].results == single.results
    assert [hit.id for hit in outcomes[2]] == [ids[2]]
    assert [outcomes[number].problem.status for number in (3, 4, 8)] == [404, 422, 422]
    assert len(outcomes[5]) == 3
    assert {hit.labels["label"] for hit in outcomes[6]} == {"odd"}
    assert isinstance(outcomes[7], NotFound)
    assert outcomes[0]._repr_html_().count("data:image/jpeg;base64,") == 3
    assert client.search_batch([]) == []
    with pytest.raises(TypeError, match="several queries are a list"):
        client.search_batch(ids[0])


def test_a_refused_request_is_no_outcome_of_a_batch(
    pictures: list[Path],  # noqa: F811
    writable: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    app = create_app([writable], settings.load(require_tokens=True, state_folder=tmp_path / "state"))
    with Client("http://localhost", token="wrong", transport=httpx.WSGITransport(app=app)) as client:
        for queries in ([pictures[0]], [pictures[0], pictures[1]], ["id:a"], ["id:a", "id:b"]):
            with pytest.raises(ServiceError) as refused:
                client.search_batch(queries)
            assert refused.value.problem.status == 401


def test_a_query_that_cannot_be_sent_does_not_lose_the_others(client: Client, ids: list[str]) -> None:  # noqa: F811
    queries: list[Any] = [{"vector": [float("nan")]}, ids[0], {"vector": ["x", object()]}]
    outcomes: list[Any] = client.search_batch(queries, k=2, rerank="none")
    assert [isinstance(outcome, InvalidInput) for outcome in outcomes] == [True, False, True]
    assert len(outcomes[1]) == 2


def test_batches_are_split_by_what_one_request_can_hold() -> None:
    searches = [prepare_search(None, {"vector": [0.5] * 20_000, "k": number % 2 + 1}) for number in range(30)]
    parts = list(split_batch(list(enumerate(searches))))
    assert sorted(number for part in parts for number, _ in part) == list(range(30))
    assert len(parts) > 1
    assert all(sum(search.size for _, search in part) <= JSON_BYTES for part in parts)
    small = [prepare_search(f"id:{number}", {}) for number in range(MAX_BATCH + 1)]
    assert [len(part) for part in split_batch(list(enumerate(small)))] == [MAX_BATCH, 1]
    files = [prepare_search(b"a", {"k": number % 2 + 1}) for number in range(4)]
    assert [[number for number, _ in part] for part in split_batch(list(enumerate(files)))] == [
        [0, 2],
        [1, 3],
    ]


def test_messages_of_collections_and_jobs_are_among_all_messages() -> None:
    for name, model in vars(collection_messages).items():
        if isinstance(model, type) and model.__module__ == collection_messages.__name__:
            assert getattr(messages, name) is model
