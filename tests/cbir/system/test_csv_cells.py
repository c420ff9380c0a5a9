"""Cells that spreadsheets could run."""

from io import StringIO

import pytest

from cbir.system.files import harmless_cell, write_rows


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("x;=1+1", "x;'=1+1"),
        ("x\t@SUM(A1)", "x\t'@SUM(A1)"),
        ("x\n+1+1", "x\n'+1+1"),
        ('x;"=1+1"', 'x;\'"=1+1"'),
        ("x; =1+1;-2+3", "x;' =1+1;'-2+3"),
        (" =1+1", "' =1+1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("\tx", "'\tx"),
        ("-inf", "'-inf"),
    ],
)
def test_formula_gets_an_apostrophe_wherever_a_cell_may_begin(value, cell):
    assert harmless_cell(value) == cell


@pytest.mark.parametrize("value", ["-1.5", "x;-1", "a - b", "a=b", "hand; left", "", 3, None, -0.5])
def test_other_cells_stay(value):
    assert harmless_cell(value) == value


def test_rows_are_written_one_at_a_time():
    file, seen = StringIO(), []

    def rows():
        for number in range(3):
            seen.append(file.getvalue().count("\n"))
            yield [number, "=1"]

    write_rows(file, rows())
    assert seen == [0, 1, 2]
    assert file.getvalue() == "0,'=1\n1,'=1\n2,'=1\n"
