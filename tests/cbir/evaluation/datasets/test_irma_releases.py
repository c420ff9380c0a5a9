"""Folders of the releases 2005 to 2009, in every layout, with the usual damage; the pictures are phantoms."""

import csv
import json
from functools import cache
from pathlib import Path

import cv2
import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import InvalidInput, NotFound
from cbir.evaluation.datasets import phantoms
from cbir.evaluation.datasets.irma.codes import CodeTree
from cbir.evaluation.datasets.irma.release import read_release
from cbir.ingest.manifest import Manifest
from tests.cbir.evaluation.datasets.small_tree import tree_of

HEADER = "image_id;a;b;05_class;c;06_class;07_irma_code;08_irma_code"
TEST_HEADER = "image_id;a;b;c;d;e;f;05_class;g;06_class;07_irma_code;08_irma_code"


@cache
def png(number: int) -> bytes:
    return cv2.imencode(".png", phantoms.draw_phantom(number, seed=3, size=32).pixels)[1].tobytes()


def code(number: int) -> str:
    return phantoms.draw_phantom(number, seed=3, size=32).code


def picture(folder: Path, name: str, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(png(number))


def labels(release, split="train"):
    return {item.image_id: item.label for item in release.items if item.split == split}


@pytest.fixture
def release_2009(tmp_path):
    """A function that lays out a release of 2009: six training and three test images."""

    def make(nested=1, padded=False, flat=False, end="\n", header=True):
        root = tmp_path / "irma"
        for split, version, numbers in (("train", "02", range(1, 7)), ("test", "03", range(101, 104))):
            name = f"ImageCLEFmed2009_{split}.{version}"
            folder = root if flat else root.joinpath(*[name] * nested)
            for number in numbers:
                picture(folder, f"{number:08d}.png" if padded else f"{number}.png", number)
            first = (HEADER if split == "train" else TEST_HEADER) if header else "x;" * 12
            blank = ";;" if split == "train" else ";;;;;;"
            rows = [f"{n};{blank}{n % 57 + 1};;{n};\\N;{code(n)}" for n in numbers]
            table = root / f"ImageCLEFmed2009_{split}_codes.{version}.csv"
            table.write_bytes((end.join([first, *rows]) + end).encode())
        return root

    return make


def table(root, split="train"):
    return next(root.glob(f"*_{split}_codes*.csv"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"nested": 2},
        {"padded": True},
        {"flat": True},
        {"flat": True, "padded": True, "end": "\r\n"},
        {"nested": 2, "end": "\r\n"},
    ],
)
def test_2009_in_every_layout(release_2009, layout):
    found = read_release(release_2009(**layout))
    assert (found.year, found.labelling, found.dropped) == ("2009", "2008", {})
    assert labels(found) == {str(n): code(n) for n in range(1, 7)}
    assert labels(found, "test") == {str(n): code(n) for n in range(101, 104)}
    assert all(item.path.is_file() for item in found.items)
    assert any("columns found by the header's names" in note for note in found.notes)


def test_2009_columns_by_position(release_2009):
    found = read_release(release_2009(header=False))
    assert labels(found, "test") == {str(n): code(n) for n in range(101, 104)}
    assert labels(found) == {str(n): code(n) for n in range(1, 7)}
    assert any("columns found by position" in note for note in found.notes)


def test_2009_without_a_header_at_all(release_2009):
    root = release_2009()
    table(root).write_text(table(root).read_text().partition("\n")[2])
    assert len(labels(read_release(root))) == 6


@pytest.mark.parametrize("header", [True, False])
def test_2009_by_another_labelling(release_2009, header):
    root = release_2009(header=header)
    assert labels(read_release(root, labelling="2005")) == {str(n): str(n % 57 + 1) for n in range(1, 7)}
    assert labels(read_release(root, labelling="2006"), "test") == {str(n): str(n) for n in range(101, 104)}
    with pytest.raises(InvalidInput, match="no value in the labelling 2007: 9"):
        read_release(root, labelling="2007")
    with pytest.raises(InvalidInput, match="labelling 2005, 2006, 2007, 2008, not 2009"):
        read_release(root, labelling="2009")


def edit(path, before, after):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


def test_2009_with_the_usual_damage(release_2009):
    root = release_2009()
    images = root / "ImageCLEFmed2009_train.02"
    (images / "1.png").unlink()
    edit(table(root), f";{code(2)}", ";\\N")
    edit(table(root), f"\\N;{code(3)}", "\\N;1121-12")
    edit(table(root), f"\\N;{code(4)}", "\\N;1121-490-913-700")
    with table(root).open("a") as file:
        file.write(f"5;;;1;;1;\\N;{code(5)}\n6;;;1;;1;\\N;{code(1)}\nx;;;\n7;\n\n;;;;;;;\n")
    picture(images / "copies", "00000005.png", 5)
    picture(images, "999.png", 9)
    (images / "._5.png").write_text("a Mac's shadow")
    found = read_release(root)
    assert labels(found) == {"5": code(5)}
    assert {reason: len(what) for reason, what in found.dropped.items()} == {
        "row without an image": 1,
        "no value in the labelling 2008": 1,
        "no code of the labelling 2008": 1,
        "code that the organisers excluded from training": 1,
        "two different labels for one image": 1,
        "row without id or with too few columns": 2,
        "second image with an id": 1,
        "training image without a label": 1,
    }
    assert found.dropped["row without an image"] == ["1"]
    assert any("5 is repeated" in note for note in found.notes)


def test_2009_test_images_without_labels_stay(release_2009):
    root = release_2009()
    table(root, "test").unlink()
    assert labels(read_release(root), "test") == {"101": None, "102": None, "103": None}


@pytest.mark.parametrize(
    ("encoding", "remark"),
    [("utf-8-sig", None), ("utf-16", "is UTF-16"), ("latin-1", "read as Latin-1"), ("utf-8", None)],
)
def test_encodings(release_2009, encoding, remark):
    root = release_2009()
    text = table(root).read_text().replace("a;b", "größe;b")
    table(root).write_bytes(text.encode(encoding))
    found = read_release(root)
    assert len(labels(found)) == 6
    assert any(remark in note for note in found.notes) if remark else not any("UTF" in n for n in found.notes)


def test_a_windows_ellipsis_is_no_line_end(release_2009):
    root = release_2009()
    table(root).write_bytes(table(root).read_bytes().replace(b"1;;;", b"1;\x85;;", 1))
    assert len(labels(read_release(root))) == 6


def test_codes_in_any_spelling(release_2009):
    root = release_2009()
    edit(table(root), code(1), code(1).replace("-", ""))
    edit(table(root), code(2), code(2).upper())
    edit(table(root, "test"), code(101), "C")
    found = read_release(root)
    assert labels(found)["1"] == code(1)
    assert labels(found)["2"] == code(2)
    assert labels(found, "test")["101"] == "C"


def test_a_tree_drops_codes_that_it_does_not_have(release_2009, tmp_path):
    (tmp_path / "tree").write_text(tree_of([code(n) for n in [1, 2, 3, 4, 5, 101, 102, 103]]))
    root = release_2009()
    edit(table(root), code(6), "z121-120-942-700")
    found = read_release(root, tree=CodeTree.read(tmp_path / "tree"))
    assert found.dropped == {"code that the tree lacks": ["6: z121-120-942-700"]}


@pytest.mark.parametrize("folders", ["Train{:02d}", "train{}", "ImageCLEF2005/Train{:02d}"])
def test_2005(tmp_path, folders):
    for number in range(1, 6):
        picture(tmp_path / folders.format(number), f"{number}.png", number)
    picture(tmp_path / "Test", "9001.png", 9)
    found = read_release(tmp_path)
    assert (found.year, found.labelling) == ("2005", "2005")
    assert labels(found) == {str(n): str(n) for n in range(1, 6)}
    assert labels(found, "test") == {"9001": None}


def test_2005_with_labels_for_the_test_images_and_the_same_ids(tmp_path):
    for number in range(1, 4):
        picture(tmp_path / f"Train{number:02d}", f"{number}.png", number)
        picture(tmp_path / "test", f"{number}.png", 10 + number)
    (tmp_path / "test_classes.txt").write_text("1 01\n2 57\n3 3\n")
    found = read_release(tmp_path)
    assert labels(found, "test") == {"1": "1", "2": "57", "3": "3"}
    assert labels(found) == {"1": "1", "2": "2", "3": "3"}


def test_2006_has_more_classes(tmp_path):
    picture(tmp_path / "Train001", "1.png", 1)
    picture(tmp_path / "Train116", "2.png", 2)
    assert read_release(tmp_path).year == "2006"
    assert labels(read_release(tmp_path)) == {"1": "1", "2": "116"}


def test_2006_by_a_list(tmp_path):
    picture(tmp_path / "train", "1.png", 1)
    picture(tmp_path / "train", "2.png", 1)
    (tmp_path / "ImageCLEF2006_classes.txt").write_text("1 7\n2 seven\n")
    found = read_release(tmp_path)
    assert (found.year, labels(found)) == ("2006", {"1": "7"})
    assert found.dropped == {"no class of the labelling 2006": ["2"]}


@pytest.mark.parametrize("year", ["2007", "2008"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("flat", [True, False])
def test_2007_and_2008(tmp_path, year, end, flat):
    for number in range(1, 4):
        picture(tmp_path if flat else tmp_path / "train", f"{number:08d}.png", number)
    picture(tmp_path / "test", "50.png", 50)
    lines = [f"   {n:8d} {code(n)}" for n in range(1, 4)] + ["    77 1121-120-942-700", "4 x y"]
    (tmp_path / f"ImageCLEF{year}med_codes.txt").write_bytes(end.join(lines).encode())
    (tmp_path / "readme.txt").write_text("These images may not be passed on.\nAsk the organisers.\n")
    found = read_release(tmp_path)
    assert (found.year, found.labelling) == (year, year)
    assert labels(found) == {str(n): code(n) for n in range(1, 4)}
    assert labels(found, "test") == {"50": None}
    assert found.dropped == {
        "line that is not `<id> <label>`": [f"ImageCLEF{year}med_codes.txt, line 5"],
        "row without an image": ["77"],
    }


def test_the_year_can_be_told(tmp_path):
    picture(tmp_path, "1.png", 1)
    (tmp_path / "codes.txt").write_text(f"1 {code(1)}")
    with pytest.raises(InvalidInput, match="not recognised as an IRMA release"):
        read_release(tmp_path)
    assert labels(read_release(tmp_path, "2007")) == {"1": code(1)}
    with pytest.raises(InvalidInput, match="unknown release 2004"):
        read_release(tmp_path, "2004")


def test_a_folder_called_latest_is_no_folder_of_test_images(tmp_path):
    picture(tmp_path / "latest" / "contest", "1.png", 1)
    (tmp_path / "ImageCLEF2007med_codes.txt").write_text(f"1 {code(1)}")
    assert labels(read_release(tmp_path)) == {"1": code(1)}


def test_flat_images_that_no_file_or_both_files_list(release_2009):
    root = release_2009(flat=True)
    picture(root, "55.png", 5)
    with table(root, "test").open("a") as file:
        file.write(f"1;;;;;;;1;;1;\\N;{code(1)}\n")
    found = read_release(root)
    assert [
        Path(path).name
        for path in found.dropped.pop("image whose split neither its folder nor one label file names")
    ] == ["1.png", "55.png"]
    assert set(labels(found)) == set("23456")


def test_what_is_no_release(tmp_path):
    with pytest.raises(NotFound):
        read_release(tmp_path / "missing")
    with pytest.raises(InvalidInput, match="not recognised as an IRMA release"):
        read_release(tmp_path)
    (tmp_path / "binary.txt").write_bytes(b"\0\1\2")
    (tmp_path / "ours.csv").write_text("path,label\n")
    with pytest.raises(InvalidInput, match="not recognised as an IRMA release"):
        read_release(tmp_path)
    (tmp_path / "Train01").mkdir()
    with pytest.raises(InvalidInput, match="no usable image of the release 2005"):
        read_release(tmp_path, "2005")


def command(*arguments, code=0):
    done = CliRunner().invoke(app, ["irma", "manifest", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output


def test_the_manifest(release_2009, tmp_path):
    root = release_2009()
    edit(table(root), code(1), "C")
    (tmp_path / "tree").write_text(tree_of([code(n) for n in [2, 3, 4, 5, 6, 101, 102, 103]]))
    out = tmp_path / "all.csv"
    facts = json.loads(command(root, out, "--tree", tmp_path / "tree", "--format", "json"))
    assert (facts["train"], facts["test"], facts["written"]) == (6, 3, 9)
    with out.open() as file:
        rows = {row["irma_id"]: row for row in csv.DictReader(file)}
    assert rows["2"]["label"] == rows["2"]["irma_code"] == code(2)
    assert rows["2"]["irma_words"].startswith("technique 1, ")
    assert (rows["1"]["irma_code"], rows["1"]["irma_words"]) == ("C", "")
    assert not Path(rows["2"]["path"]).is_absolute()
    manifest = Manifest(out)
    path = (out.parent / rows["101"]["path"]).resolve()
    assert manifest.labels([path])[path]["split"] == "test"


def test_one_part_only_and_elsewhere(release_2009, tmp_path):
    root, out = release_2009(), tmp_path / "away" / "test.csv"
    out.parent.mkdir()
    shown = command(root, out, "--split", "test", "--labelling", "2005")
    assert "written 3" in " ".join(shown.split())
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["irma_class"] for row in rows] == [str(n % 57 + 1) for n in range(101, 104)]
    assert all(Path(row["path"]).is_file() for row in rows)


def test_what_was_dropped_is_shown(release_2009, tmp_path):
    root = release_2009()
    (root / "ImageCLEFmed2009_train.02" / "1.png").unlink()
    assert "dropped: 1 x row without an image (1)" in command(root, tmp_path / "m.csv")


def test_a_manifest_that_cannot_be_written(release_2009, tmp_path):
    done = CliRunner().invoke(app, ["irma", "manifest", str(release_2009()), str(tmp_path / "no" / "m.csv")])
    assert isinstance(done.exception, InvalidInput)
