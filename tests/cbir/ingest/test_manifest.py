"""Labels from a csv."""

import unicodedata

import pytest

from cbir.errors import InvalidInput
from cbir.ingest.manifest import Manifest

BOM = "\ufeff"


def write(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "manifest.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_paths_are_relative_to_the_csv_or_absolute(tmp_path):
    other = tmp_path / "elsewhere" / "b.png"
    manifest = Manifest(write(tmp_path, f"path,label,grade\nx/a.png,knee,2\n{other},hand,\n"))
    a = tmp_path / "x" / "a.png"
    assert manifest.labels([a, other, tmp_path / "c.png"]) == {
        a: {"label": "knee", "grade": "2"},
        other: {"label": "hand"},
    }
    assert manifest.columns == ("label", "grade")
    assert len(manifest) == 2


def test_rows_without_a_file_are_counted(tmp_path):
    manifest = Manifest(write(tmp_path, "path,label\na.png,x\nb.png,y\n"))
    assert manifest.unused() == 2
    manifest.labels([tmp_path / "a.png"])
    assert manifest.unused() == 1


def test_byte_order_mark_windows_line_ends_and_quotes(tmp_path):
    manifest = Manifest(write(tmp_path, '\ufeffpath,note\r\n"a, b.png","say ""hi"""\r\n'))
    path = tmp_path / "a, b.png"
    assert manifest.labels([path]) == {path: {"note": 'say "hi"'}}


def test_an_empty_table_is_fine(tmp_path):
    assert len(Manifest(write(tmp_path, "path,label\n"))) == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no column `path`"),
        ("file,label\na,b\n", "no column `path`"),
        ("path,label\na.png,x\na.png,y\n", "same file"),
        ("path,label\na.png,x\nsub/../a.png,y\n", "same file"),
        ("path,label\na.png\n", "line 2"),
        ("path,label\na.png,x,y\n", "line 2"),
        ('path,label\n"a.png,x\n', "unexpected end"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, text, reason):
    with pytest.raises(InvalidInput, match=reason):
        Manifest(write(tmp_path, text))


def test_another_encoding_is_named(tmp_path):
    with pytest.raises(InvalidInput, match="UTF-8"):
        Manifest(write(tmp_path, "path,label\na.png,Übersicht\n", "latin-1"))


def test_a_missing_manifest_is_named(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read"):
        Manifest(tmp_path / "none.csv")


@pytest.mark.parametrize("name", ["patient", " Patient", "PatientID", "patient_id", "Patient Name"])
def test_however_the_patients_column_is_written_it_is_no_label(tmp_path, name):
    manifest = Manifest(write(tmp_path, f"path, label ,{name}\na.png, knee ,Jane\n"))
    path = tmp_path / "a.png"
    assert manifest.labels([path]) == {path: {"label": "knee", "patient": "Jane"}}


@pytest.mark.parametrize("header", ["path,label,label", "path,path", "path,patient,PatientID", "path,a=b"])
def test_headers_that_cannot_be_told_apart_or_filtered_by_are_refused(tmp_path, header):
    with pytest.raises(InvalidInput, match=r"two columns|character"):
        Manifest(write(tmp_path, header + "\n"))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("name", ["path", "Path", " PATH "])
def test_what_spreadsheets_write_is_read(tmp_path, separator, name):
    rows = [[name, "label", "grade"], ["a.png", "knee", '"1,5"' if separator != "," else "2"]]
    manifest = Manifest(write(tmp_path, "\r\n".join(separator.join(row) for row in rows)))
    ((path, labels),) = manifest.rows()
    assert (path, labels["label"]) == (tmp_path / "a.png", "knee")
    assert manifest.columns == ("label", "grade")


def test_a_column_of_another_name_gets_a_hint(tmp_path):
    with pytest.raises(InvalidInput, match=r"no column `path`; rename its column `Filename`"):
        Manifest(write(tmp_path, "Filename,label\na.png,x\n"))
    with pytest.raises(InvalidInput, match="its first line must name the columns") as told:
        Manifest(write(tmp_path, "DOE^JANE.png,knee\n"))
    assert "DOE" not in str(told.value)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("name", ["Filename", "File Name", "image-path", f"{BOM}Pfad"])
def test_the_hint_does_not_depend_on_the_separator(tmp_path, separator, name):
    with pytest.raises(InvalidInput, match=f"rename its column `{name.removeprefix(BOM)}`"):
        Manifest(write(tmp_path, f"{name}{separator}label\r\na.png{separator}x\r\n"))


@pytest.mark.parametrize(
    "text", ["path|label\na.png|x\n", "\npath,label\na.png,x\n", "", "sep=;\npath;label\n"]
)
def test_other_tables_get_a_hint(tmp_path, text):
    with pytest.raises(
        InvalidInput, match="first line must name the columns, separated by commas, semicolons"
    ):
        Manifest(write(tmp_path, text))


def test_separators_in_values_and_names_stay(tmp_path):
    manifest = Manifest(write(tmp_path, '\ufeff"Path";"a,b"\n"x;y.png";"c;d,e"\n'))
    assert list(manifest.rows()) == [(tmp_path / "x;y.png", {"a,b": "c;d,e"})]
    assert Manifest(write(tmp_path, '"label;x",path\nc;d,a.png\n')).columns == ("label;x",)


def test_a_column_path_comes_before_one_with_capitals(tmp_path):
    assert Manifest(write(tmp_path, "Path,path\nx,a.png\n")).columns == ("Path",)


COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "Ünter Ärm") for form in ("NFC", "NFD"))


@pytest.mark.parametrize("written", [
    r"sub\a.png", r".\sub\a.png", f"{COMPOSED}/b.png", f"{DECOMPOSED}/b.png", rf"{COMPOSED}\b.png",
    f"{DECOMPOSED}.png", f"{COMPOSED}.png",
])  # fmt: skip
def test_paths_in_the_spelling_of_another_system_find_their_files(tmp_path, written):
    files = [tmp_path / "sub" / "a.png", tmp_path / DECOMPOSED / "b.png", tmp_path / f"{COMPOSED}.png"]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x")
    (tmp_path / "m.csv").write_text(f"path,label\n{written},knee\n", encoding="utf-8")
    manifest = Manifest(tmp_path / "m.csv")
    (labelled,) = manifest.labels(files)
    assert labelled.exists()
    assert manifest.unused() == 0


def test_a_file_with_a_backslash_in_its_name_is_found_as_it_is(tmp_path):
    (tmp_path / "sub").mkdir()
    names = ["sub/a.png", "sub\\a.png"]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "m.csv").write_text("path,label\nsub\\a.png,odd\nsub/a.png,plain\n")
    labels = Manifest(tmp_path / "m.csv").labels([tmp_path / name for name in names])
    assert [row["label"] for row in labels.values()] in (["odd", "plain"], ["plain", "odd"])
    assert labels[tmp_path / "sub\\a.png"] == {"label": "odd"}


@pytest.mark.parametrize("name", [" a.png", "a.png ", " a .png", "\u00a0ä.png", " sub/a.png ", " "])
def test_spaces_around_a_name_that_are_the_files_stay(tmp_path, name):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"x")
    manifest = Manifest(write(tmp_path, f"path,label\n{name}, knee \n"))
    assert list(manifest.rows()) == [(file, {"label": "knee"})]


@pytest.mark.parametrize("name", ["a.png", "ä.png", "none.png", "sub\\a.png"])
def test_spaces_around_a_name_that_are_not_the_files_are_left_out(tmp_path, name):
    (tmp_path / "sub").mkdir()
    for existing in ("a.png", "ä.png", "sub/a.png"):
        (tmp_path / existing).write_bytes(b"x")
    manifest = Manifest(write(tmp_path, f"path,label\n {name} , knee\n"))
    assert list(manifest.rows()) == [(tmp_path / name.replace("\\", "/"), {"label": "knee"})]


def test_a_path_that_exists_in_no_spelling_stays_as_it_is(tmp_path):
    (tmp_path / "m.csv").write_text(f"path,label\n{DECOMPOSED}\\x.png,knee\n", encoding="utf-8")
    ((path, _),) = Manifest(tmp_path / "m.csv").rows()
    assert path == tmp_path / f"{DECOMPOSED}\\x.png"
