"""Transforms that collections take over from each other: files, growth, erasure, refusals."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cbir.errors import InvalidInput
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.base.normalisation import Projection, Standardisation
from cbir.store.snapshot.stored_snapshot import transform_origin
from service.features.federation.site_agreement import (
    TransformFile,
    difference,
    site_profile,
    transform_fingerprint,
)
from service.features.federation.site_messages import SiteProfile
from tests.service.features.federation.exchange.collections import create, entries


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Collections of different images with the same profile."""
    return create(tmp_path / "north", entries(40)), create(tmp_path / "south", entries(60, seed=1)[40:])


def site(folder: Path) -> SiteProfile:
    with Collection(folder) as collection:
        return site_profile(collection, Settings())


def adopt(folder: Path, file: TransformFile) -> None:
    with Collection(folder) as collection, collection.writer() as writer:
        here = file.origin == transform_origin(collection.secret)
        writer.adopt_statistics(file.statistics_for(collection), here)


def exported(folder: Path, path: Path) -> TransformFile:
    with Collection(folder) as collection:
        TransformFile.of_collection(collection).write(path)
    return TransformFile.read(path)


def test_sites_agree_after_taking_over_one_file(two: tuple[Path, Path], tmp_path: Path) -> None:
    north, south = two
    assert "its transform is" in str(difference(site(north), site(south)))
    file = exported(north, tmp_path / "transform.json")
    for folder in two:
        adopt(folder, file)
    assert difference(site(north), site(south)) is None
    with Collection(south) as collection:
        view = collection.view()
        raw = collection.raw_vectors(view.gallery.ids)
        expected = file.statistics_for(collection).normalise(raw)
        np.testing.assert_array_equal(view.gallery.vectors(np.arange(len(raw))), expected)


def test_it_stays_when_the_collection_grows_and_goes_with_a_refit(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    north, south = two
    adopt(south, exported(north, tmp_path / "transform.json"))
    shared = site(north).transform
    with Collection(south) as collection, collection.writer() as writer:
        writer.add(entries(400, seed=2)[60:])
        writer.finish()
    assert site(south).transform == shared
    with Collection(south) as collection, collection.writer() as writer:
        writer.compact()
        assert collection.count() == 360
    assert site(south).transform == shared
    with Collection(south) as collection, collection.writer() as writer:
        writer.compact(refit=True)
    assert site(south).transform != shared


@pytest.mark.parametrize("fitted_here", [False, True])
def test_erasing_a_patient_fits_again_what_was_fitted_to_its_images(
    two: tuple[Path, Path], tmp_path: Path, fitted_here: bool
) -> None:
    north, south = two
    folder = north if fitted_here else south
    adopt(folder, exported(north, tmp_path / "transform.json"))
    shared = site(folder).transform
    with Collection(folder) as collection:
        (_, first), *_ = collection.iterate()
        with collection.writer() as writer:
            assert writer.erase_patient([str(first.patient_key)])
    assert (site(folder).transform == shared) is not fitted_here


def test_an_empty_collection_can_take_one_over_and_then_fill(tmp_path: Path) -> None:
    north = create(tmp_path / "north", entries(40))
    file = exported(north, tmp_path / "transform.json")
    Collection.create(tmp_path / "empty", profiles.get("tamura")).close()
    adopt(tmp_path / "empty", file)
    with Collection(tmp_path / "empty") as collection, collection.writer() as writer:
        writer.add(entries(30, seed=3))
        writer.finish()
    assert site(tmp_path / "empty").transform == site(north).transform


def test_a_collection_without_statistics_exports_nothing(tmp_path: Path) -> None:
    with (
        Collection.create(tmp_path / "empty", profiles.get("tamura")) as collection,
        pytest.raises(InvalidInput, match="has no transform yet; index images first"),
    ):
        TransformFile.of_collection(collection)


def test_another_profile_is_refused_and_named(two: tuple[Path, Path], tmp_path: Path) -> None:
    file = exported(two[0], tmp_path / "transform.json")
    other = create(tmp_path / "other", [], "huang2012")
    with (
        Collection(other) as collection,
        pytest.raises(InvalidInput, match=r"is for the profile tamura .*has huang2012"),
    ):
        file.statistics_for(collection)


def test_a_changed_file_is_refused(two: tuple[Path, Path], tmp_path: Path) -> None:
    file = exported(two[0], tmp_path / "transform.json")
    fields = json.loads(file.statistics)
    fields["mean"][0] += 1
    texts = [json.dumps(fields), "{}", "null", "[]", json.dumps({**fields, "mean": [float("nan")] * 6})]
    with Collection(two[0]) as collection:
        for text in texts:
            with pytest.raises(InvalidInput, match="has changed since it was exported"):
                file.model_copy(update={"statistics": text}).statistics_for(collection)
    for content in (b"", b"{}", b"\xff", file.model_dump_json().encode() + b"x"):
        (tmp_path / "broken.json").write_bytes(content)
        with pytest.raises(InvalidInput, match="is not a transform"):
            TransformFile.read(tmp_path / "broken.json")
    with pytest.raises(InvalidInput, match="cannot be read"):
        TransformFile.read(tmp_path / "missing.json")


def test_fingerprints_tell_transforms_apart_and_nothing_else() -> None:
    mean, scale = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    one = Standardisation(mean, scale, 10)
    assert transform_fingerprint(one) == transform_fingerprint(replace(one, fitted_on=999))
    assert transform_fingerprint(one) != transform_fingerprint(replace(one, mean=scale))
    assert transform_fingerprint(one) != transform_fingerprint(replace(one, scale=scale * 2))
    projection = Projection(mean, np.eye(5, 2, dtype=np.float32), scale[:1], 1.0, 10)
    name = transform_fingerprint(projection)
    assert name == transform_fingerprint(replace(projection, version=9, fitted_on=1))
    assert name != transform_fingerprint(replace(projection, length=2.0))
    assert name != transform_fingerprint(replace(projection, directions=None))


def test_profiles_are_compared_before_transforms(two: tuple[Path, Path]) -> None:
    north, south = site(two[0]), site(two[1])
    other = south.model_copy(update={"profile": "lite0-max", "profile_hash": "f" * 16})
    assert difference(north, other) == (
        f"its profile is lite0-max ({'f' * 16}), here it is tamura ({north.profile_hash}); "
        "index with the same profile"
    )
    assert "\n" not in str(difference(north, south))
