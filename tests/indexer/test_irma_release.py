"""Zips of releases: made-up ones with the published codes and counts, and hostile ones."""

import stat
import warnings
import zipfile
from collections import Counter

import pytest

from cbir.errors import InvalidInput, StorageFull
from cbir.evaluation.datasets.irma.codes import CodeTree
from cbir.evaluation.datasets.irma.phantom_release import (
    CODES_OF_2007,
    phantom_release_classes,
    write_phantom_release,
)
from cbir.evaluation.datasets.irma.release import ERRATA, read_release
from indexer import irma_release
from indexer.irma_release import extract_release
from tests.cbir.evaluation.datasets.irma_reference import reference_classes


@pytest.mark.slow
@pytest.mark.parametrize("year", ["2007", "2009"])
def test_a_made_up_release_has_the_published_codes_and_counts(tmp_path, year):
    classes = reference_classes()
    assert len(classes) == 193
    assert not {item.code for item in classes} & ERRATA
    if year == "2007":
        classes = classes[:CODES_OF_2007]
    tree = write_phantom_release(tmp_path / "r.zip", year, classes, size=32, distinct=1)
    with zipfile.ZipFile(tmp_path / "r.zip") as archive:
        names = archive.namelist()
    tables = {name for name in names if not name.endswith(".png")}
    folder = tmp_path / "release"
    for name in [*sorted(tables), *(name for name in names if name.endswith(".png"))]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()  # reading a release does not open pictures
    with zipfile.ZipFile(tmp_path / "r.zip") as archive:
        archive.extractall(folder, sorted(tables))
    release = read_release(folder, tree=CodeTree.read(tree))
    assert (release.year, release.dropped) == (year, {})
    for split in ("train", "test"):
        counts = Counter(item.label for item in release.items if item.split == split)
        assert counts == Counter(
            {item.code: getattr(item, split) for item in classes if getattr(item, split)}
        )
    if year == "2009":
        assert tables == {"ImageCLEFmed2009_train_codes.02.csv", "ImageCLEFmed2009_test_codes.03.csv"}
        assert sum(item.train for item in classes) == 12_671  # 12,677 less those that the organisers excluded
        older = read_release(folder, labelling="2007")
        assert {item.label for item in older.items if item.split == "train"} == {
            item.code for item in classes[:CODES_OF_2007]
        }
        assert len({item.label for item in read_release(folder, labelling="2005").items}) == 57
    else:
        assert tables == {"ImageCLEF2007med_codes.txt"}


def test_pictures_differ_and_are_the_same_again(tmp_path):
    classes = phantom_release_classes(75)[:2]
    for name in ("a", "b"):
        write_phantom_release(tmp_path / f"{name}.zip", "2009", classes, size=32, distinct=1)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        pictures = [archive.read(name) for name in archive.namelist() if name.endswith(".png")]
    assert len(set(pictures)) == len(pictures) == sum(item.train + item.test for item in classes)
    with pytest.raises(InvalidInput, match="2007 or 2009, not of 2008"):
        write_phantom_release(tmp_path / "c.zip", "2008", classes)
    with pytest.raises(InvalidInput, match="cannot be written"):
        write_phantom_release(tmp_path / "no" / "c.zip", "2007", classes)
    with pytest.raises(InvalidInput, match="too few"):
        phantom_release_classes(74)


def zip_of(path, *entries, **info):
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")  # two files of one name
        for name, content in entries:
            member = zipfile.ZipInfo(name)
            member.external_attr = info.get("mode", 0o644) << 16
            archive.writestr(member, content)
    return path


def test_only_pictures_and_label_files_are_extracted(tmp_path):
    path = zip_of(
        tmp_path / "r.zip", ("train/1.png", "x"), ("codes.txt", "y"), ("a.csv", "z"), ("run.sh", "rm"),
        (".hidden.png", "h"), ("__MACOSX/._1.png", "m"), (".git/1.png", "g"), ("sub/", ""),
    )  # fmt: skip
    assert extract_release(path, tmp_path / "out") == 3
    files = sorted(file.relative_to(tmp_path / "out").as_posix() for file in (tmp_path / "out").rglob("*.*"))
    assert files == ["a.csv", "codes.txt", "source.sha256", "train/1.png"]


@pytest.mark.parametrize(
    "name", ["../1.png", "a/../../1.png", "/tmp/1.png", "a\\..\\1.png", "C:/1.png", "..\\1.txt", "../"]
)
def test_names_that_lead_out_stop_it(tmp_path, name):
    path = zip_of(tmp_path / "r.zip", ("ok.png", "x"), (name, "x"))
    with pytest.raises(InvalidInput, match="leads out of the folder"):
        extract_release(path, tmp_path / "out" / "deep")
    assert [file.name for file in tmp_path.rglob("*")] == ["r.zip"]


def test_links_and_two_files_of_a_name(tmp_path):
    with pytest.raises(InvalidInput, match="leads out"):
        extract_release(
            zip_of(tmp_path / "r.zip", ("1.png", "/etc/passwd"), mode=stat.S_IFLNK | 0o777), tmp_path / "out"
        )
    with pytest.raises(InvalidInput, match="two files"):
        extract_release(zip_of(tmp_path / "s.zip", ("1.png", "a"), ("1.png", "b")), tmp_path / "out")


def test_bounds(tmp_path, monkeypatch):
    path = zip_of(tmp_path / "r.zip", ("1.png", b"x" * 100), ("2.png", b"x" * 100))
    for limit, value, reason in (
        ("MAX_MEMBERS", 1, "at most 1 are extracted"),
        ("MAX_MEMBER_BYTES", 99, "more than 99 bytes"),
        ("MAX_TOTAL_BYTES", 199, "200 bytes once extracted"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(irma_release, limit, value)
            with pytest.raises(InvalidInput, match=reason):
                extract_release(path, tmp_path / "out")
    monkeypatch.setattr(irma_release.shutil, "disk_usage", lambda _: type("Disk", (), {"free": 199}))
    with pytest.raises(StorageFull, match="needs 200 bytes"):
        extract_release(path, tmp_path / "out")


def test_damaged_and_other_files(tmp_path):
    path = zip_of(tmp_path / "r.zip", ("1.png", b"x" * 1000))
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match="damaged"):
        extract_release(path, tmp_path / "out")
    assert not (tmp_path / "out" / "1.png").exists()
    (tmp_path / "no.zip").write_text("no zip")
    with pytest.raises(InvalidInput, match="no zip file"):
        extract_release(tmp_path / "no.zip", tmp_path / "out2")
    with pytest.raises(InvalidInput, match=r"missing\.zip"):
        extract_release(tmp_path / "missing.zip", tmp_path / "out2")
    with pytest.raises(InvalidInput, match="no picture or label file"):
        extract_release(zip_of(tmp_path / "e.zip", ("a.exe", "x")), tmp_path / "out2")
    encrypted = bytearray(zip_of(tmp_path / "p.zip", ("1.png", "x")).read_bytes())
    encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "p.zip").write_bytes(encrypted)
    with pytest.raises(InvalidInput, match="encrypted"):
        extract_release(tmp_path / "p.zip", tmp_path / "out2")


def test_it_continues_and_refuses_the_folder_of_another(tmp_path):
    path = zip_of(tmp_path / "r.zip", *((f"{number}.png", f"{number}") for number in range(5)))
    steps = []
    extract_release(path, tmp_path / "out", lambda *step: steps.append(step))
    assert steps == [(number, 5) for number in range(1, 6)]
    (tmp_path / "out" / "3.png").unlink()
    (tmp_path / "out" / "4.png").write_text("")
    steps.clear()
    extract_release(path, tmp_path / "out", lambda *step: steps.append(step))
    assert steps == [(4, 5), (5, 5)]
    assert [(tmp_path / "out" / f"{number}.png").read_text() for number in range(5)] == list("01234")
    with pytest.raises(InvalidInput, match="holds the content of another file"):
        extract_release(zip_of(tmp_path / "s.zip", ("1.png", "other")), tmp_path / "out")
