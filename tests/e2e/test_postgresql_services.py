"""Two services over one collection in PostgreSQL, each as on a machine of its own, and a server that is killed."""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import httpx
import pytest

from cbir.store import Collection
from cbir.store.collection_address import collection_folder
from tests.e2e.test_kill_service import noise
from tests.postgresql_server import PostgresqlServer, missing_reason
from tests.service.conftest import Served, command, pictures, problem, serving

__all__ = ["pictures"]  # fixture of the service's tests, used here too

RECOVERY_SECONDS = 120.0
RENEWAL_SECONDS = 60.0  # within which an erased patient leaves the other machine's snapshot
SAME_KEY = 4  # requests at a time


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    """A server of its own, to be killed."""
    if reason := missing_reason():
        pytest.skip(reason)
    running = PostgresqlServer()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def address(server: PostgresqlServer, pictures: list[Path]) -> str:
    """A collection with all pictures but the last six."""
    new = server.new_address()
    labels = pictures[0].with_name("labels.csv")
    options = ["--labels", labels, "--jobs", "1", "--profile", "huang2012", "--collection", new]
    code, _, said = command("index", *pictures[:-6], *options)
    assert code == 0, said
    return new


@pytest.fixture
def services(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Two services, each with a files folder of its own; the second has a copy of the key."""
    key = collection_folder(address) / "patient.key"
    with monkeypatch.context() as patch:
        patch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "second"))
        shutil.copy(key, collection_folder(address))
    second = {"CBIR_COLLECTION_FILES": str(tmp_path / "second"), "CBIR_STATE_FOLDER": str(tmp_path / "state")}
    with (
        serving(address) as one,
        serving(address, **second) as other,
        client_of(one) as first,
        client_of(other) as last,
    ):
        yield first, last
        for service in (one, other):
            code, log = service.stop()
            assert (code, "unexpected error" in log, "Traceback" in log) == (0, False, False), log


def client_of(service: Served) -> httpx.Client:
    return httpx.Client(base_url=service.address, timeout=60)


def add(client: httpx.Client, seed: int, **headers: str) -> httpx.Response:
    return client.post("/v1/images", files={"image": ("x.png", noise(seed), "image/png")}, headers=headers)


def find_same(client: httpx.Client, seed: int) -> str | None:
    """Id under which the collection has the picture of a seed, as a search with it says."""
    answer = client.post("/v1/search", files={"image": ("x.png", noise(seed), "image/png")}, params={"k": 1})
    assert answer.status_code == 200, answer.text
    image_id: str | None = answer.json()["query"]["image_id"]
    return image_id


def eventually(condition: Callable[[], bool], seconds: float, complaint: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, complaint
        time.sleep(0.1)


def test_what_one_service_does_the_other_shows_at_once(
    services: tuple[httpx.Client, httpx.Client], address: str, tmp_path: Path
) -> None:
    one, other = services
    (image_id,) = add(one, 1).json()["ids"]
    assert find_same(other, 1) == image_id == find_same(one, 1)
    path = f"/v1/images/{image_id}"
    changed = other.patch(path, json={"labels": {"finding": "seen"}})
    assert changed.status_code == 200, changed.text
    assert one.get(path).json()["labels"]["finding"] == "seen"
    assert other.delete(path).status_code == 204
    for client in services:
        problem(client.get(path), 404)
        assert find_same(client, 1) is None
    _erase(services, address, tmp_path / "second")
    _same_key_at_both(services)
    _both_add_at_once(services)
    _one_of_two_changes_wins(services)


def _erase(services: tuple[httpx.Client, httpx.Client], address: str, second: Path) -> None:
    """Erase a patient by a command; neither service shows an image, and both snapshots lose the vectors."""
    snapshots = {path.name for path in second.rglob("*.index")}
    with Collection(collection_folder(address)) as collection:
        (key, *_) = collection.patient_keys().values()
        names = collection.image_ids()
        ids = [names[number] for number, of in collection.patient_keys().items() if of == key]
    code, printed, said = command("collection", "erase-patient", key, "--yes", "--collection", address)
    assert code == 0, said
    assert re.search(r"erased +\d", printed)
    for client in services:
        for image_id in ids:
            problem(client.get(f"/v1/images/{image_id}"), 404)
        found = client.post(
            "/v1/search", files={"image": ("x.png", noise(5), "image/png")}, params={"k": 100}
        )
        assert not {hit["image_id"] for hit in found.json()["results"]} & set(ids)
    eventually(
        lambda: not snapshots & {path.name for path in second.rglob("*.index")},
        RENEWAL_SECONDS,
        "the other machine's snapshot still has the vectors",
    )


def _same_key_at_both(services: tuple[httpx.Client, httpx.Client]) -> None:
    """Send the same request with the same key to both services at the same time, several times."""
    for seed in range(100, 105):
        barrier = Barrier(SAME_KEY)

        def send(client: httpx.Client, seed: int = seed, barrier: Barrier = barrier) -> httpx.Response:
            barrier.wait()
            return add(client, seed, **{"Idempotency-Key": f"key-{seed}"})

        with ThreadPoolExecutor(SAME_KEY) as pool:
            answers = list(pool.map(send, services * (SAME_KEY // 2)))
        assert {answer.status_code for answer in answers} == {201}, [answer.text for answer in answers]
        assert len({answer.text for answer in answers}) == 1
        assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1


def _both_add_at_once(services: tuple[httpx.Client, httpx.Client]) -> None:
    before = [client.get("/readyz").json()["images"] for client in services]
    assert before[0] == before[1]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda seed: add(services[seed % 2], seed), range(200, 220)))
    assert {answer.status_code for answer in answers} == {201}
    ids = [image_id for answer in answers for image_id in answer.json()["ids"]]
    assert len(set(ids)) == 20
    for client in services:
        assert client.get("/readyz").json()["images"] == before[0] + 20


def _one_of_two_changes_wins(services: tuple[httpx.Client, httpx.Client]) -> None:
    """Change an image at both services, each on condition that it is as it was."""
    (image_id,) = add(services[0], 400).json()["ids"]
    path = f"/v1/images/{image_id}"
    for turn in range(5):
        unchanged = {"If-Match": services[0].get(path).headers["ETag"]}
        barrier = Barrier(2)

        def change(
            number: int, turn: int = turn, barrier: Barrier = barrier, unchanged: dict[str, str] = unchanged
        ) -> int:
            barrier.wait()
            labels = {"finding": f"{turn}-{number}"}
            return services[number].patch(path, json={"labels": labels}, headers=unchanged).status_code

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(change, range(2))) == [200, 412]


def test_services_outlive_a_server_that_is_killed(
    services: tuple[httpx.Client, httpx.Client], server: PostgresqlServer, address: str
) -> None:
    kept = [add(client, seed).json()["ids"][0] for seed, client in enumerate(services, start=300)]
    server.kill()
    for client in services:
        for answer in (add(client, 302), client.get("/v1/images"), client.get("/readyz")):
            detail = problem(answer, 503)
            assert answer.json()["type"].endswith("#database-unavailable")
            assert answer.headers["Retry-After"]
            assert address.partition("?")[0] in detail
        assert client.get("/livez").json() == {"status": "ok"}
        eventually(
            lambda client=client: "down" in client.get("/healthz").json(),
            RECOVERY_SECONDS,
            "/healthz names nothing",
        )
        assert "cannot be used" in next(iter(client.get("/healthz").json()["down"].values()))
    server.start()
    for client in services:
        eventually(
            lambda client=client: client.get("/readyz").status_code == 200, RECOVERY_SECONDS, "not back"
        )
        eventually(
            lambda client=client: "down" not in client.get("/healthz").json(), RECOVERY_SECONDS, "still down"
        )
    assert add(services[0], 302).status_code == 201
    assert [find_same(services[1], seed) for seed in (300, 301)] == kept
    assert find_same(services[1], 302)
