"""Two services over one collection in PostgreSQL with a vector index on a server, which is killed and comes back."""

import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pytest

from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.collection_address import collection_folder
from cbir.store.index.open_index import open_index
from tests.e2e.test_postgresql_services import add, client_of, eventually, find_same
from tests.postgresql_server import PostgresqlServer
from tests.service.conftest import command, serving

FEW = 5  # candidates: fewer than images, so that searches use the index
FOLLOWED = 120.0  # seconds within which a deleted image leaves the index
RECOVERED = 120.0

pytestmark = pytest.mark.slow


@dataclass
class Pair:
    """Two services, the address of their collection and the setting `index` of both."""

    clients: Sequence[httpx.Client]
    address: str
    index: str

    def stored(self, numbers: Sequence[int]) -> list[int]:
        """Return those of the numbers that the current edition of the index holds, by the index itself."""
        with Collection(collection_folder(self.address)) as collection:
            opened = open_index(collection, Settings(index=self.index))
            assert opened
            edition = opened.current.find()
            return [] if edition is None else edition.index.vectors(np.sort(numbers))[0].tolist()

    def edition(self) -> str | None:
        """Return the name of the edition that answers."""
        with Collection(collection_folder(self.address)) as collection:
            opened = open_index(collection, Settings(index=self.index))
            assert opened
            edition = opened.current.find()
            return edition.name if edition else None


@pytest.fixture(params=["pgvector", "milvus"])
def pair(
    request: pytest.FixtureRequest,
    vector_server: PostgresqlServer,
    pictures: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Pair]:
    """Services over a collection of all pictures but the last six, once their index is built."""
    index = request.param if request.param == "pgvector" else request.getfixturevalue("milvus").address
    monkeypatch.setenv("CBIR_INDEX", index)
    monkeypatch.setenv("CBIR_INDEXED_CANDIDATES", str(FEW))
    monkeypatch.setenv("CBIR_INDEXED_SAMPLE", str(FEW))
    address = vector_server.new_address()
    options = ["--labels", pictures[0].with_name("labels.csv"), "--jobs", "1", "--profile", "huang2012"]
    code, _, said = command("index", *pictures[:-6], *options, "--collection", address)
    assert code == 0, said
    key = collection_folder(address) / "patient.key"
    second = {"CBIR_COLLECTION_FILES": str(tmp_path / "files"), "CBIR_STATE_FOLDER": str(tmp_path / "state")}
    with monkeypatch.context() as patch:
        patch.setenv("CBIR_COLLECTION_FILES", second["CBIR_COLLECTION_FILES"])
        shutil.copy(key, collection_folder(address))
    with ExitStack() as stack:
        services = [stack.enter_context(serving(address, **of)) for of in ({}, second)]
        clients = [stack.enter_context(client_of(service)) for service in services]
        for client in clients:
            eventually(lambda client=client: is_well(client), FOLLOWED, "the index does not answer")
        yield Pair(clients, address, index)
        for service in services:
            code, log = service.stop()
            assert (code, "unexpected error" in log, "Traceback" in log) == (0, False, False), log
    vector_server.drop_schemas([address])


def is_well(client: httpx.Client) -> bool:
    return client.get("/healthz").json() == {"status": "ok"}


def search(client: httpx.Client, image_id: str, **given: object) -> dict[str, object]:
    answer = client.post("/v1/search", json={"image_id": image_id, "k": 3, "rerank": "eprf", **given})
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def numbers_of(address: str, ids: Sequence[str]) -> list[int]:
    with Collection(collection_folder(address)) as collection:
        return [int(number) for number in collection.numbers_of(list(ids))]


def test_services_share_an_index(pair: Pair) -> None:
    one, other = pair.clients
    (added,) = add(one, 1).json()["ids"]
    assert find_same(other, 1) == added
    numbers = numbers_of(pair.address, [added])
    eventually(lambda: pair.stored(numbers) == numbers, FOLLOWED, "the index lacks an added image")
    found = search(other, added)
    assert "by an index" in found["rerank"]["scope"]  # type: ignore[index]
    nearest = found["results"][0]["image_id"]  # type: ignore[index]
    assert other.delete(f"/v1/images/{nearest}").status_code == 204
    for client in pair.clients:
        assert nearest not in str(search(client, added, k=100))
    _erase(pair, added)
    deleted = numbers + [number + 1 for number in range(max(numbers))]
    eventually(
        lambda: len(pair.stored(deleted)) == one.get("/readyz").json()["images"],
        FOLLOWED,
        "the index holds what the collection has not",
    )


def _erase(pair: Pair, query: str) -> None:
    """Erase a patient by a command: no service shows an image at once, a new edition holds none of the vectors."""
    with Collection(collection_folder(pair.address)) as collection:
        (key, *_) = collection.patient_keys().values()
        numbers = [number for number, of in collection.patient_keys().items() if of == key]
        ids = [collection.image_ids()[number] for number in numbers]
    before = pair.edition()
    code, printed, said = command("collection", "erase-patient", key, "--yes", "--collection", pair.address)
    assert code == 0, said + printed
    for client in pair.clients:
        assert not set(ids) & {hit["image_id"] for hit in search(client, query, k=100)["results"]}  # type: ignore[attr-defined]
    eventually(lambda: pair.edition() != before, FOLLOWED, "the statistics of before stay in use")
    eventually(lambda: not pair.stored(numbers), FOLLOWED, "the index holds an erased image")


@pytest.mark.parametrize("pair", ["milvus"], indirect=True)
def test_index_is_killed_and_comes_back(pair: Pair, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("milvus")
    one, other = pair.clients
    (kept,) = add(one, 1).json()["ids"]
    expected = search(other, kept, rerank="none")
    server.kill()
    try:
        for client in pair.clients:
            start = time.monotonic()
            found = search(client, kept, rerank="none")
            assert time.monotonic() - start < 120
            assert ids_of(found) == ids_of(expected)
            assert "All images were compared" in str(found["rerank"]["notes"])  # type: ignore[index]
            assert client.get("/readyz").status_code == 200
        (late,) = add(one, 2).json()["ids"]
        assert find_same(other, 2) == late
        for client in pair.clients:
            eventually(lambda client=client: says_degraded(client), FOLLOWED, "/healthz names nothing")
            assert re.search("cbir_index_up.* 0.0", client.get("/metrics").text)
    finally:
        server.start()
    for client in pair.clients:
        eventually(lambda client=client: is_well(client), RECOVERED, "the index does not answer again")
        assert ids_of(search(client, kept, rerank="none"))[0] in {*ids_of(expected), late}
        assert "All images" not in str(search(client, kept))
    numbers = numbers_of(pair.address, [late])
    eventually(lambda: pair.stored(numbers) == numbers, FOLLOWED, "the index lacks what was added meanwhile")


def says_degraded(client: httpx.Client) -> bool:
    return client.get("/healthz").json() == {"status": "degraded", "degraded": ["index"]}


def ids_of(found: dict[str, object]) -> list[str]:
    return [hit["image_id"] for hit in found["results"]]  # type: ignore[attr-defined]
