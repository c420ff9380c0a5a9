"""A service over an alias: another collection is switched to while it runs."""

import gc
import itertools
import json
import shutil
import threading
import time
import weakref
from pathlib import Path

import httpx
import psutil
import pytest

from cbir import settings
from cbir.errors import CollectionBusy
from cbir.store import Collection
from cbir.store.collection_address import write_alias
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.collections.app_state import EXTENSION
from tests.service.conftest import COUNT, cbir, command, copy_folder, problem, serving

SWITCHES = 20
SENDERS = 4


@pytest.fixture(scope="module")
def described(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the collection, `first`, and its images with another profile, `second`; not to be changed."""
    root = tmp_path_factory.mktemp("described")
    copy_folder(indexed, root / "first")
    cbir(
        "collection",
        "redescribe",
        root / "second",
        "--collection",
        root / "first",
        "--profile",
        "tamura",
        "--jobs",
        "1",
    )
    return root


@pytest.fixture
def alias(described: Path, tmp_path: Path) -> Path:
    """An alias of the first of two collections, in a folder of its own."""
    copy_folder(described, tmp_path / "srv")
    write_alias(tmp_path / "srv" / "chest.alias", tmp_path / "srv" / "first")
    return tmp_path / "srv" / "chest.alias"


def first_profile(alias: Path) -> str:
    """The profile of the collection `first`, that of new collections."""
    with Collection(alias.with_name("first")) as collection:
        return collection.profile.name


def test_the_next_request_sees_the_other_collection(alias: Path, ids: list[str]) -> None:
    app = create_app([alias, alias.with_name("first")], settings.load())
    client = app.test_client()
    assert client.get("/v1/collections").json == {"collections": ["chest", "first"], "default": "chest"}
    before = client.post("/v1/search", json={"image_id": ids[0], "k": 5}).json["results"]
    for folder, profile in (("second", "tamura"), ("first", first_profile(alias))):
        write_alias(alias, alias.with_name(folder))
        ready = client.get("/readyz").json
        assert (ready["profile"], ready["folders"], ready["images"]) == (
            profile,
            {"chest": folder},
            COUNT - 6,
        )
        info = client.get("/v1/collection").json
        assert (info["name"], info["profile"]) == ("chest", profile)
        assert client.get("/v1/collection?collection=first").json["profile"] == first_profile(alias)
        after = client.post("/v1/search", json={"image_id": ids[0], "k": 5}).json["results"]
        assert (after == before) == (folder == "first")


def test_writes_go_to_the_folder_of_the_moment(alias: Path, ids: list[str]) -> None:
    client = create_app(alias, settings.load()).test_client()
    client.get("/readyz")
    write_alias(alias, alias.with_name("second"))
    change, anyway = {"labels": {"site": "A"}}, {"If-Match": "*"}
    assert client.patch(f"/v1/images/{ids[0]}", json=change, headers=anyway).status_code == 200
    with Collection(alias.with_name("first")) as first, Collection(alias.with_name("second")) as second:
        assert "site" not in first.record(ids[0]).labels
        assert second.record(ids[0]).labels["site"] == "A"


def test_a_job_indexes_into_the_folder_of_the_moment(
    alias: Path, pictures: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "images").mkdir()
    shutil.copy(pictures[-1], tmp_path / "images")
    app = create_app(alias, settings.load(index_roots=[str(tmp_path / "images")]))
    client = app.test_client()
    client.get("/readyz")
    write_alias(alias, alias.with_name("second"))
    job = client.post("/v1/jobs", json={"folder": str(tmp_path / "images"), "processes": 1}).json["job"]
    deadline = time.monotonic() + 60
    while client.get(f"/v1/jobs/{job}").json["state"] in ("waiting", "running"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    with Collection(alias.with_name("first")) as first, Collection(alias.with_name("second")) as second:
        assert (len(first), len(second)) == (COUNT - 6, COUNT - 5)


def test_a_request_writes_to_the_collection_that_it_described_images_for(alias: Path) -> None:
    app = create_app(alias, settings.load())
    handle = app.extensions[EXTENSION].collections["chest"]
    with app.test_request_context():
        described_for = handle.whole_searcher().collection.profile
        write_alias(alias, alias.with_name("second"))
        with handle.writer("test") as writer, Collection(writer.folder) as written:
            assert written.profile.hash == described_for.hash
    with app.test_request_context(), handle.writer("test") as writer:
        assert writer.folder.name == "second"


def test_a_request_has_one_collection_while_another_request_opens_the_next(alias: Path) -> None:
    app = create_app(alias, settings.load())
    handle = app.extensions[EXTENSION].collections["chest"]
    with app.test_request_context():
        searcher = handle.whole_searcher()
        write_alias(alias, alias.with_name("second"))
        other = threading.Thread(target=handle.whole_searcher)
        other.start()
        other.join()
        assert handle.folder == searcher.collection.folder == alias.with_name("first")
        assert handle.whole_searcher() is searcher
    with app.test_request_context():
        assert handle.folder == handle.whole_searcher().collection.folder == alias.with_name("second")


def test_a_job_blocks_writes_to_its_own_folder_alone(alias: Path) -> None:
    handle = create_app(alias, settings.load()).extensions[EXTENSION].collections["chest"]
    with handle.indexing(handle.folder):
        with pytest.raises(CollectionBusy, match="a job is indexing"), handle.writer("test"):
            pass
        write_alias(alias, alias.with_name("second"))
        with handle.writer("test") as writer:
            assert writer.folder == alias.with_name("second")
        write_alias(alias, alias.with_name("first"))
        with pytest.raises(CollectionBusy, match="a job is indexing"), handle.writer("test"):
            pass
    with handle.writer("test") as writer:
        assert writer.folder == alias.with_name("first")


def test_an_alias_that_leads_nowhere_leaves_the_collection_in_use(alias: Path, tmp_path: Path) -> None:
    client = create_app(alias, settings.load()).test_client()
    assert client.get("/readyz").json["folders"] == {"chest": "first"}
    shutil.copytree(alias.with_name("second"), alias.with_name("damaged"))
    (alias.with_name("damaged") / "collection.sqlite").write_bytes(b"no database" * 1000)
    shutil.rmtree(alias.with_name("damaged") / "last-good")
    (alias.with_name("empty")).mkdir()
    for content in ('{"folder": "gone"}', '{"folder": "empty"}', '{"folder": "damaged"}', "?"):
        alias.write_text(content)
        ready = client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json["folders"] == {"chest": "first"}
        assert "first stays in use" in ready.json["warning"]
        assert str(tmp_path) not in ready.json["warning"]
        assert client.get("/v1/collection").json["profile"] == first_profile(alias)
    alias.unlink()
    assert "first stays in use" in client.get("/readyz").json["warning"]
    write_alias(alias, alias.with_name("second"))
    ready = client.get("/readyz").json
    assert (ready["folders"], ready.get("warning")) == ({"chest": "second"}, None)
    alias.write_text("?")
    problem(create_app(alias, settings.load()).test_client().get("/readyz"), 503)


def test_the_collection_before_is_released(alias: Path, ids: list[str]) -> None:
    app = create_app(alias, settings.load())
    client = app.test_client()
    handle = app.extensions[EXTENSION].collections["chest"]
    client.post("/v1/search", json={"image_id": ids[0], "where": ["label=even"], "rerank": "diffusion"})
    searcher = handle.whole_searcher()
    view, collection = weakref.ref(searcher.collection.view()), weakref.ref(searcher.collection)
    write_alias(alias, alias.with_name("second"))
    client.get("/readyz")
    gc.collect()
    assert view() is not None, "a request that runs on it still has it"
    assert len(searcher.collection.record(ids[0]).content_hash) == 32
    del searcher
    gc.collect()
    assert view() is None
    assert collection() is None


def test_rights_and_audit_log_have_the_name_of_the_alias(alias: Path, ids: list[str], state: Path) -> None:
    tokens = TokenStore(state)
    _, text = tokens.create([Scope.search], collections=["chest"], where=["label=even"])
    _, other = tokens.create([Scope.search], collections=["first"])
    loaded = settings.load(state_folder=state, require_tokens=True)
    client = create_app([alias, alias.with_name("first")], loaded).test_client()
    for folder in ("first", "second"):
        write_alias(alias, alias.with_name(folder))
        headers = {"Authorization": f"Bearer {text}"}
        assert client.get("/v1/collections", headers=headers).json["collections"] == ["chest"]
        found = client.post("/v1/search", json={"image_id": ids[0], "k": 100}, headers=headers).json[
            "results"
        ]
        assert {hit["labels"]["label"] for hit in found} == {"even"}
        problem(client.get(f"/v1/images/{ids[1]}", headers=headers), 404)
        assert client.get("/readyz", headers=headers).json == {"status": "ready"}
        refused = {"Authorization": f"Bearer {other}"}
        assert client.get("/v1/collections", headers=refused).json["collections"] == ["first"]
    assert len((state / "audit.jsonl").read_text().splitlines()) == 4


def test_two_collections_of_one_name_are_refused(alias: Path) -> None:
    shutil.copytree(alias.with_name("first"), alias.with_name("chest"))
    code, out, err = command("serve", "--collection", alias, "--collection", alias.with_name("chest"))
    assert (code, out) == (2, "")
    assert "two collections have the folder name chest" in err


class Reader(threading.Thread):
    """Sends requests of several kinds until it is stopped; counts the answers by profile and by status."""

    def __init__(self, address: str, ids: list[str], picture: bytes, stop: threading.Event) -> None:
        super().__init__()
        self.address, self.ids, self.picture, self.stop = address, ids, picture, stop
        self.statuses: list[int] = []
        self.problems: list[str] = []

    def run(self) -> None:
        with httpx.Client(base_url=self.address, timeout=60) as client:
            for turn in itertools.count():
                if self.stop.is_set():
                    return
                image_id = self.ids[turn % len(self.ids)]
                png = {"content": self.picture, "headers": {"Content-Type": "image/png"}}
                for answer in (
                    client.post("/v1/search", json={"image_id": image_id, "where": ["label=even"]}),
                    client.post("/v1/search", json={"image_id": image_id, "rerank": "eprf"}),
                    client.post("/v1/search?k=3", **png),
                    client.get(f"/v1/images/{image_id}"),
                    client.get(f"/v1/images/{image_id}/thumbnail"),
                    client.get("/v1/images?limit=10"),
                    client.get("/readyz"),
                ):
                    self.statuses.append(answer.status_code)
                    if answer.status_code != 200:
                        self.problems.append(answer.text)


@pytest.mark.e2e
def test_no_request_fails_while_a_running_service_is_switched(
    alias: Path, ids: list[str], pictures: list[Path]
) -> None:
    with serving(alias) as served:
        stop = threading.Event()
        readers = [Reader(served.address, ids, pictures[-1].read_bytes(), stop) for _ in range(SENDERS)]
        for reader in readers:
            reader.start()
        try:
            seen = []
            for turn in range(SWITCHES):
                folder = ("second", "first")[turn % 2]
                code, _, err = command("collection", "alias", alias, alias.with_name(folder))
                assert code == 0, err
                expected = ("tamura", first_profile(alias))[turn % 2]
                deadline = time.monotonic() + 30  # services look at an alias now and then
                while (name := _profile(served.address)) != expected and time.monotonic() < deadline:
                    time.sleep(0.1)
                seen.append(name)
        finally:
            stop.set()
            for reader in readers:
                reader.join(60)
        assert seen == ["tamura", first_profile(alias)] * (SWITCHES // 2)
        statuses = [status for reader in readers for status in reader.statuses]
        assert [problem for reader in readers for problem in reader.problems] == []
        assert set(statuses) == {200}
        assert len(statuses) > SWITCHES
        write_alias(alias, alias.with_name("second"))
        assert httpx.get(f"{served.address}/readyz").json()["folders"] == {"chest": "second"}
        metrics = httpx.get(f"{served.address}/metrics").text
        assert f'cbir_collection_images{{collection="chest"}} {COUNT - 6}.0' in metrics
        deadline = time.monotonic() + 30
        while left := _held_files(served.process.pid, alias.with_name("first")):
            assert time.monotonic() < deadline, left
            httpx.get(f"{served.address}/v1/images?limit=1")
            time.sleep(0.2)
        print(json.dumps({"requests": len(statuses), "switches": SWITCHES}))


def _profile(address: str) -> str:
    return str(httpx.get(f"{address}/v1/collection", timeout=60).json()["profile"])


def _held_files(pid: int, folder: Path) -> list[str]:
    """The files in `folder` that a process and its children have open or mapped."""
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    held = [file.path for process in processes for file in (*process.open_files(), *process.memory_maps())]
    return [path for path in held if path.startswith(f"{folder}/")]
