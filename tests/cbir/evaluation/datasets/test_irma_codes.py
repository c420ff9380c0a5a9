"""Codes and the code tree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbir.errors import InvalidInput
from cbir.evaluation.datasets.irma.codes import CLUTTER, CodeTree, parse_code, strip_zeros
from tests.cbir.evaluation.datasets.small_tree import SMALL_TREE, published


@pytest.fixture
def tree(tmp_path):
    return read(tmp_path, SMALL_TREE)


def read(folder, text, encoding="utf-8"):
    (folder / "tree.txt").write_bytes(text.encode(encoding))
    return CodeTree.read(folder / "tree.txt")


@pytest.mark.parametrize(
    "text", ["1121-120-91a-700", "112112091a700", " 1121-120-91A-700\r\n", "112112091A700"]
)
def test_hyphens_case_and_blanks_do_not_matter(text):
    assert parse_code(text) == "1121-120-91a-700"


@pytest.mark.parametrize(
    "text",
    [
        *("", "1121", "1121-120-942-70", "1121-120-942-7000", "11-21120-942-700", "1121-120942-700"),
        "1.12112E+12",  # what a spreadsheet makes of it
        *("1121 120 942 700", "1121-120-94!-700", "1121-1\uff120-942-700"),
        *("1121-120-***-700", "1121-102-942-700"),
    ],
)
def test_what_is_no_true_code(text):
    with pytest.raises(InvalidInput, match=r"not an IRMA code|don't know|continues after 0"):
        parse_code(text)


def test_whatever_follows_a_star_is_unknown():
    assert parse_code("1*21-*20-94*-7*0", wildcards=True) == "1***-***-94*-7**"
    assert parse_code("*************", wildcards=True) == "****-***-***-***"


@pytest.mark.parametrize("text", ["C", "c", "C001", "clutter"])
def test_clutter(text):
    assert parse_code(text) == CLUTTER


@settings(deadline=None)
@given(st.text(max_size=20), st.booleans())
def test_any_text_is_a_code_or_refused(text, wildcards):
    try:
        code = parse_code(text, wildcards)
    except InvalidInput:
        return
    assert code == CLUTTER or (len(code) == 16 and parse_code(code, wildcards) == code)


@pytest.mark.parametrize(
    ("padded", "plain"),
    [
        ("00003145", "3145"),
        ("3145", "3145"),
        ("0", "0"),
        ("000", "0"),
        (" 7 ", "7"),
        ("a01", "a01"),
        ("", ""),
    ],
)
def test_ids_without_padding(padded, plain):
    assert strip_zeros(padded) == plain


def test_branching_along_a_code(tree):
    assert tree.branching("1121-120-942-700") == [10, 7, 7, 19, 6, 3, 18, 11, 7, 4, 18, 30, 1]
    assert tree.branching("1121-120-200-700")[7:10] == [11, 4, 1]
    assert tree.branching("0000-000-000-000") == [10, 1, 1, 1, 6, 1, 1, 11, 1, 1, 18, 1, 1]


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("a121-120-942-700", r"technique a \(digit 1"),
        ("1121-160-942-700", r"direction 16 \(digit 2"),
        ("1121-120-949-700", r"anatomy 949 \(digit 3"),
        ("1121-120-942-711", r"biosystem 711 \(digit 3"),
        ("1121-120-811-700", r"anatomy 81 "),
    ],
)
def test_a_code_that_the_tree_does_not_have_is_named(tree, code, named):
    with pytest.raises(InvalidInput, match=f"{code}.*{named}"):
        tree.branching(code)


def test_words(tree):
    assert tree.words("1121-120-000-7**") == (
        "technique 1, technique 11, technique 112, technique 1121 | direction 1, direction 12 | unspecified | "
        "biosystem 7, ?"
    )
    with pytest.raises(InvalidInput, match="anatomy 99"):
        tree.words("1121-120-999-700")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_a_tree_in_any_encoding_and_line_ending(tmp_path, encoding):
    text = SMALL_TREE.replace("technique 1121", "Übersicht").replace("\n", "\r\n")
    assert read(tmp_path, text, encoding).words("1121-000-000-000").startswith("technique 1, technique 11, ")
    assert "Übersicht" in read(tmp_path, text, encoding).words("1121-000-000-000")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("[112] technique 112\n", "", r"line \d+: \[1120\] has no parent \[112\]|gap: \[112\]"),
        ("[12] direction 12\n", "", "no parent|gap"),
        ("[3] anatomy 3\n", "", r"\[4\] leaves a gap: \[3\] is missing"),
        ("[3] anatomy 3\n", "[3] one\n[3] two\n", r"\[3\] is repeated"),
        ("[3] anatomy 3\n", "[33333] one\n", "more than the 3 digits"),
        ("[3] anatomy 3\n", "3 anatomy\n", "neither a section nor a node"),
        ("**** anatomy ****\n", "", "leaves a gap|is repeated|no parent"),
    ],
)
def test_a_damaged_tree_is_refused_with_its_line(tmp_path, before, after, told):
    assert before in SMALL_TREE
    with pytest.raises(InvalidInput, match=told) as caught:
        read(tmp_path, SMALL_TREE.replace(before, after, 1))
    assert "line " in str(caught.value)


def test_what_is_no_tree(tmp_path):
    with pytest.raises(InvalidInput, match="no section technique, direction, anatomy, biosystem"):
        read(tmp_path, "")
    (tmp_path / "binary").write_bytes(b"\x89PNG\0\0")
    with pytest.raises(InvalidInput, match="not a text file"):
        CodeTree.read(tmp_path / "binary")
    with pytest.raises(InvalidInput, match="cannot be read"):
        CodeTree.read(tmp_path / "missing")


def test_the_published_tree():
    tree = CodeTree.read(published() / "code_tree_2008.txt")
    assert sum(map(len, tree.axes)) == 1637
    assert tree.branching("1121-120-942-700") == [10, 7, 7, 19, 6, 3, 18, 11, 7, 4, 18, 30, 1]
    assert tree.branching("1121-120-200-700")[7:10] == [11, 4, 1]
    words = tree.words("1121-120-942-700")
    assert words.startswith("x-ray, plain radiography, analog, overview image | ")
    assert words.count(" | ") == 3
