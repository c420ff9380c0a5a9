"""`cbir admin federate`: list, check, search, and the transform."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cbir.store import Collection
from tests.service.conftest import command, refusal
from tests.service.features.federation.exchange.collections import create, entries
from tests.service.features.federation.hospitals import Hospital, site_of

pytestmark = pytest.mark.slow


class Region(NamedTuple):
    """A collection whose settings name other services."""

    folder: Path
    config: Path
    state: Path
    north: Hospital


@pytest.fixture
def region(collections: dict[str, Path], tmp_path: Path) -> Iterator[Region]:
    """The collection south, which knows north, and east, which is away."""
    north = Hospital(collections["north"])
    with north.serve() as address:
        site = site_of(north, address, tmp_path)
        config = tmp_path / "cbir.toml"
        config.write_text(
            f'[sites.north]\nurl = "{address}"\ntoken_file = "{site.token_file}"\nseconds = 20\n'
            '[sites.east]\nurl = "http://127.0.0.1:1"\n'
        )
        yield Region(collections["south"], config, tmp_path / "state", north)


def run(region: Region, *arguments: str | Path) -> tuple[int, str, str]:
    return command("admin", "federate", *arguments, CBIR_CONFIG=region.config, CBIR_STATE_FOLDER=region.state)


def test_sites_are_listed_without_their_tokens(region: Region) -> None:
    code, out, _ = run(region, "list")
    assert code == 0
    assert "north" in out
    token = (region.config.parent / f"token-{region.north.folder.name}").read_text().strip()
    assert token
    for arguments in (
        ("admin", "federate", "list", "--format", "json"),
        ("admin", "config", "--format", "json"),
    ):
        _, out, _ = command(*arguments, CBIR_CONFIG=region.config)
        assert "127.0.0.1" in out
        assert token not in out
    code, out, _ = command("admin", "federate", "list")
    assert "There are no sites" in out


def test_check_says_who_agrees(region: Region, tmp_path: Path) -> None:
    code, out, _ = run(region, "check", "--collection", region.folder)
    assert code == 1
    assert out.splitlines() == ["north: agrees; 30 images", "east: it cannot be reached"]
    assert run(region, "check", "--collection", region.folder, "--site", "north")[0] == 0
    other = create(tmp_path / "other", entries(20, seed=7))
    code, out, _ = run(region, "check", "--collection", other, "--site", "north", "--format", "json")
    assert code == 1
    (row,) = json.loads(out)
    assert "its transform is" in row["problem"]
    assert "vector" not in json.dumps(region.north.audit_lines)
    assert {line["action"] for line in region.north.audit_lines} == {"site-profile"}


def test_a_search_is_merged_and_logged(region: Region) -> None:
    with Collection(region.folder) as collection:
        (_, record), *_ = collection.iterate()
    arguments = ("search", f"id:{record.image_id}", "--collection", region.folder, "-k", "59")
    code, out, _ = run(region, *arguments)
    assert code == 0
    assert "east: it cannot be reached" in out
    code, out, _ = run(region, *arguments, "--format", "json")
    answer = json.loads(out)
    assert [site["results"] for site in answer["sites"]] == [29, 30, 0]
    assert "vector to north" in (region.state / "audit.jsonl").read_text()
    assert region.north.audit_lines[-1]["sent"][0] == "30 distances"
    code, out, _ = run(region, *arguments, "--rerank", "aqe")
    assert "their ranks are merged" in out


def test_what_has_left_is_logged_if_the_search_is_interrupted(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("service.features.federation.site_client.SiteClient.search", interrupt)
    with Collection(region.folder) as collection:
        (_, record), *_ = collection.iterate()
    code, _, _ = run(
        region, "search", f"id:{record.image_id}", "--collection", region.folder, "--site", "north"
    )
    assert code
    line = json.loads((region.state / "audit.jsonl").read_text().splitlines()[-1])
    assert line["sent"] == ["vector to north"]


def test_a_transform_is_carried_to_another_collection(region: Region, tmp_path: Path) -> None:
    other = create(tmp_path / "other", entries(20, seed=7))
    file = tmp_path / "transform.json"
    code, out, _ = command("admin", "federate", "export-transform", file, "--collection", region.folder)
    assert code == 0
    assert file.stat().st_mode & 0o077 == 0
    code, out, _ = command("admin", "federate", "adopt-transform", file, "--collection", other)
    assert code == 0, out
    assert run(region, "check", "--collection", other, "--site", "north")[0] == 0
    file.write_text("{}")
    assert "is not a transform" in refusal(
        "admin", "federate", "adopt-transform", file, "--collection", other
    )


def test_wrong_settings_are_one_line(tmp_path: Path, collections: dict[str, Path]) -> None:
    config = tmp_path / "cbir.toml"
    config.write_text('[sites.north]\nurl = "http://north.example"\n')
    code, _, err = command("admin", "federate", "list", CBIR_CONFIG=config)
    assert code == 2
    assert "must begin with https://" in err
    assert len(err.strip().splitlines()) == 1
    assert "this service knows no other" in refusal(
        "admin", "federate", "check", "--collection", collections["south"]
    )
