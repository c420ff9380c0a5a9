"""Outlines of lenses: what a csv gives, and what is refused."""

import numpy as np
import pytest

from cbir.descriptors import lens_files
from cbir.descriptors.lens_files import format_outlines, read_outlines
from cbir.errors import InvalidInput

SQUARE = np.array([[2, 5], [2, 2], [5, 2], [8, 2], [8, 5], [8, 8], [5, 8], [2.5, 8.25]])


def written(tmp_path, text):
    path = tmp_path / "outlines.csv"
    path.write_text(text)
    return path


def rows(name, count):
    return "".join(f"{name},{number},1\n" for number in range(count))


def test_read_what_was_written(tmp_path):
    path = written(tmp_path, format_outlines([("a.png", SQUARE), ("b/c.png", SQUARE + 1)]))
    outlines = read_outlines(path)
    assert list(outlines) == [tmp_path / "a.png", tmp_path / "b" / "c.png"]
    np.testing.assert_array_equal(outlines[tmp_path / "b" / "c.png"], SQUARE + 1)


def test_other_columns_and_orders(tmp_path):
    mixed = "".join(f"{x},{y},{name},me\n" for x, y in SQUARE for name in ("a", "b"))
    outlines = read_outlines(written(tmp_path, f"\ufeffx,y,path,by\n{mixed}"))
    np.testing.assert_array_equal(outlines[tmp_path / "b"], SQUARE)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no column path, x, y"),
        ("path,x\na,1\n", "no column y"),
        ("path,x,y\n", "no outlines"),
        ("path,x,y\na,1,2\na,1\n", "line 3: a row has"),
        ("path,x,y\na,1,nan\n", "line 2: a row has"),
        ("path,x,y\n,1,2\n", "line 2: a row has"),
        ("path,x,y\na,1,zwei\n", "line 2: a row has"),
        ("path,x,y\n" + rows("a", 9), "a has 9 landmarks"),
        ("path,x,y\n" + rows("a", 4), "a has 4 landmarks"),
        ("path,x,y\n" + rows("a", 132), "a has 132 landmarks"),
        ("path,x,y\n" + rows("a", 8) + rows("b", 12), "b has 12 landmarks, a 8"),
        ('path,x,y\n"a,1,2\n', "outlines.csv: "),
    ],
)
def test_refused(tmp_path, text, why):
    with pytest.raises(InvalidInput, match=why):
        read_outlines(written(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(InvalidInput, match="No such file"):
        read_outlines(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes(b"path,x,y\n\xe9,1,2\n")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read_outlines(tmp_path / "latin.csv")
    path = written(tmp_path, "path,x,y\n" + rows("a", 8) + rows("b", 8) + rows("c", 8))
    monkeypatch.setattr(lens_files, "MOST_IMAGES", 2)
    with pytest.raises(InvalidInput, match="3 images, at most 2"):
        read_outlines(path)
    monkeypatch.setattr(lens_files, "MOST_BYTES", 20)
    with pytest.raises(InvalidInput, match="larger than"):
        read_outlines(path)
