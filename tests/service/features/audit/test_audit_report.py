"""`cbir collection audit`: the files of a report, and folders that it refuses."""

import csv
import json
import os
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.evaluation.datasets.phantoms import write_phantoms
from indexer.index_job import index_images
from service.features.audit.audit_output import REPORT_FILES, check_report_folder, write_report_folder
from service.features.audit.privacy import PrivacyFindings, PrivacyGroup
from service.features.audit.report_sections import render_privacy


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Phantoms with a label, a split and a few wrong labels."""
    folder = tmp_path_factory.mktemp("audited")
    write_phantoms(folder / "images", 40)
    with (folder / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "kind", "part", "patient"])
        for number, path in enumerate(sorted((folder / "images").glob("*.png"))):
            rows.writerow(
                [path, "even" if number % 2 else "odd", "test" if number % 5 == 0 else "train", number // 2]
            )
    index_images(folder / "images", folder / "collection", labels=folder / "labels.csv", jobs=1)
    return folder / "collection"


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_report_of_a_collection(collection: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    arguments = [
        "collection",
        "audit",
        "--collection",
        str(collection),
        "--out",
        str(out),
        "--format",
        "json",
    ]
    done = CliRunner().invoke(app, [*arguments, "--label", "kind", "--split", "part"])
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    labels = rows(out / "labels.csv")
    assert len(labels) == printed["images"] == 40
    assert list(labels[0])[:4] == ["image_id", "source", "label", "suspicion"]
    suspicion = [float(row["suspicion"]) for row in labels]
    assert suspicion == sorted(suspicion, reverse=True)
    assert all(
        0 <= value <= 1 and Path(row["source"]).is_file()
        for value, row in zip(suspicion, labels, strict=True)
    )
    assert {row["kind"] for row in rows(out / "leaks.csv")} >= {"patient"}  # neighbours share one
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "data:image/jpeg;base64," in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "No source has images of enough weeks" in page
    message = json.loads((out / "audit.json").read_text(encoding="utf-8"))
    assert message["images"] == 40
    by_value = {each["value"]: each for each in message["labels"]["values"]}
    assert {value: each["images"] for value, each in by_value.items()} == {"even": 20, "odd": 20}
    assert sum(each["suspects"] for each in by_value.values()) == message["labels"]["suspects"]
    assert {path.name for path in out.iterdir()} <= REPORT_FILES
    assert os.stat(out).st_mode & 0o077 == 0
    again = CliRunner().invoke(app, arguments)  # in place of the report, without label and split
    assert again.exit_code == 0, again.output
    assert rows(out / "labels.csv") == []
    assert json.loads((out / "audit.json").read_text(encoding="utf-8"))["leaks"] is None
    assert "Not compared: <code>--label KEY</code>" in (out / "report.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_images_without_a_file_are_counted(tmp_path: Path) -> None:
    write_phantoms(tmp_path / "images", 3)
    index_images(tmp_path / "images", tmp_path / "collection", jobs=1)
    next((tmp_path / "images").glob("*.png")).unlink()
    arguments = [
        "collection",
        "audit",
        "--collection",
        str(tmp_path / "collection"),
        "--out",
        str(tmp_path / "report"),
    ]
    done = CliRunner().invoke(app, [*arguments, "--format", "json"])
    assert json.loads(done.stdout)["unread_images"] == 1
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "Without a readable file, compared by content alone: 1." in page


def test_the_privacy_section_counts_images_by_part_and_reason() -> None:
    group = PrivacyGroup(where="labels", part="<referrer>", why="person", images=3)
    counts = {"checked": 9, "unread": 2, "images": 3, "dicom_files": 0, "undeclared": 0, "own_uids": 0}
    section = render_privacy(PrivacyFindings(groups=[group], items=[], **counts))
    assert "3 of 9 images may identify a person. The files of 2 images were not found. privacy.csv" in section
    assert "<td>&lt;referrer&gt;</td><td>name of a person</td><td>3</td>" in section


def test_an_unknown_label_is_refused_in_a_line(collection: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    done = CliRunner().invoke(
        app, ["collection", "audit", "--collection", str(collection), "--out", str(out), "--label", "knid"]
    )
    assert isinstance(done.exception, InvalidInput) or done.exit_code != 0
    assert not out.exists()


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="other files"):
        check_report_folder(tmp_path, REPORT_FILES)
    (tmp_path / "audit.json").write_text("{}")
    with pytest.raises(InvalidInput, match="other files"):
        write_report_folder(tmp_path, {"audit.json": "{}"}, REPORT_FILES)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    with pytest.raises(InvalidInput, match="does not exist"):
        check_report_folder(tmp_path / "no" / "report", REPORT_FILES)
    with pytest.raises(InvalidInput, match="is a file"):
        check_report_folder(tmp_path / "notes.txt", REPORT_FILES)


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(folder: Path) -> list[Path]:  # root may read every folder
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", forbid)
    with pytest.raises(InvalidInput, match="cannot be read: Permission denied"):
        check_report_folder(tmp_path, REPORT_FILES)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder where root cannot write either")
def test_a_folder_where_nothing_can_be_written_is_refused_before_the_audit() -> None:
    with pytest.raises(InvalidInput, match="nothing can be written to /proc"):
        check_report_folder(Path("/proc/report"), REPORT_FILES)
    with pytest.raises(InvalidInput, match="disk is mounted; name a folder in it"):
        check_report_folder(Path("/proc"), REPORT_FILES)


@pytest.mark.parametrize("name", ["report.partial", "report.partial/new", "report.earlier"])
def test_folders_of_similar_names_stay(tmp_path: Path, name: str) -> None:
    mine = tmp_path / name / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    refused = pytest.raises(InvalidInput, match="move it away") if "partial" in name else nullcontext()
    with refused:
        for text in "12":
            write_report_folder(tmp_path / "report", {"audit.json": text}, REPORT_FILES)
    assert mine.read_text() == "mine"


def test_a_killed_write_is_cleared_by_the_next(tmp_path: Path) -> None:
    new = tmp_path / "report.partial" / "new"
    new.mkdir(parents=True)
    (new / "audit.json.partial").touch()
    write_report_folder(tmp_path / "report", {"audit.json": "1"}, REPORT_FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_a_report_moved_aside_by_a_killed_write_survives_a_write_that_fails(tmp_path: Path) -> None:
    earlier = tmp_path / "report.partial" / "earlier"
    earlier.mkdir(parents=True)
    (earlier / "audit.json").write_text("1")
    with pytest.raises(UnicodeEncodeError):
        write_report_folder(tmp_path / "report", {"audit.json": "\ud800"}, REPORT_FILES)
    assert (tmp_path / "report" / "audit.json").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_a_link_where_the_report_is_prepared_is_refused(tmp_path: Path) -> None:
    for target in ("nowhere", "disk"):
        (tmp_path / "disk").mkdir(exist_ok=True)
        (tmp_path / "report.partial").symlink_to(tmp_path / target)
        with pytest.raises(InvalidInput, match="move it away"):
            check_report_folder(tmp_path / "report", REPORT_FILES)
        (tmp_path / "report.partial").unlink()


def test_a_link_to_a_report_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "report")
    for text in "12":
        write_report_folder(tmp_path / "link", {"audit.json": text}, REPORT_FILES)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "disk" / "report" / "audit.json").read_text() == "2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "link"]


def test_an_error_leaves_the_report_before(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    write_report_folder(folder, {"audit.json": "1"}, REPORT_FILES)
    with pytest.raises(TypeError):
        write_report_folder(folder, {"audit.json": None}, REPORT_FILES)  # type: ignore[dict-item]
    assert (folder / "audit.json").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
