"""Checks of `make release`, on small repositories and archives of their own."""

import io
import json
import subprocess
import tarfile
import zipfile

import pytest

from release import distribution_contents, source_state
from release.changelog import FILE, sections

CHANGELOG = """# Changelog

## [1.2.0] - 2026-03-04

### Added

- A thing.

## [1.1.0]
"""


def git(folder, *arguments):
    names = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path):
    """A repository that can be released."""
    for name in ("cbir", "docs"):
        (tmp_path / name).mkdir()
    (tmp_path / "cbir" / "__init__.py").write_text('"""A package."""\n\n__version__ = "1.2.0"\n')
    (tmp_path / "docs" / "openapi.json").write_text(json.dumps({"info": {"version": "1.2.0"}}))
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def commit(folder, path, text):
    (folder / path).write_text(text)
    git(folder, "commit", "--quiet", "--all", "--message", "next")


def test_sections_of_a_changelog():
    assert sections(CHANGELOG) == {"1.2.0": ("2026-03-04", "### Added\n\n- A thing."), "1.1.0": (None, "")}
    assert sections("# Changelog\n") == {}
    assert list(sections(FILE.read_text()))[-1] == "0.1.0"


def test_a_clean_checkout_can_be_released(checkout):
    assert source_state.problems(checkout) == []
    assert source_state.problems(checkout, tagged=True) == ["the commit has no tag v1.2.0"]
    git(checkout, "tag", "v1.2.0")
    assert source_state.problems(checkout, tagged=True) == []


def test_what_is_not_committed(checkout):
    (checkout / "new.txt").write_text("new")
    (checkout / "CHANGELOG.md").write_text(CHANGELOG + "\n")
    assert source_state.problems(checkout) == ["not committed: CHANGELOG.md, new.txt"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("[1.2.0]", "[Unreleased]", "CHANGELOG.md begins with Unreleased, cbir/__init__.py states 1.2.0"),
        (" - 2026-03-04", "", "CHANGELOG.md has no date for 1.2.0"),
        ("2026-03-04", "2026-13-04", "CHANGELOG.md has no date for 1.2.0"),
        ("### Added\n\n- A thing.\n", "", "CHANGELOG.md has nothing about 1.2.0"),
    ],
)
def test_a_changelog_that_does_not_agree(checkout, old, new, problem):
    commit(checkout, "CHANGELOG.md", CHANGELOG.replace(old, new))
    (line,) = source_state.problems(checkout)
    assert line.startswith(problem)


def test_an_api_description_of_another_version(checkout):
    commit(checkout, "docs/openapi.json", json.dumps({"info": {"version": "1.1.0"}}))
    (line,) = source_state.problems(checkout)
    assert line.startswith("docs/openapi.json describes 1.1.0")


def test_tags_of_other_versions_and_commits(checkout):
    git(checkout, "tag", "v1.1.0")
    assert source_state.problems(checkout) == ["the commit has the tag v1.1.0, not v1.2.0 alone"]
    git(checkout, "tag", "--delete", "v1.1.0")
    git(checkout, "tag", "v1.2.0")
    commit(checkout, "cbir/__init__.py", '__version__ = "1.2.0"\n')
    (line,) = source_state.problems(checkout, tagged=True)
    assert line.startswith("the tag v1.2.0 is on another commit")


TRACKED = {"cbir/__init__.py", "cbir/py.typed", "service/templates/page.html", "service/static/page.js"}
BUNDLE = "service/static/bundles/manifest.json"
IN_WHEEL = {*TRACKED, BUNDLE, *(f"cbir-1.2.0.dist-info/{name}" for name in distribution_contents.METADATA)}
IN_SDIST = {*TRACKED, *distribution_contents.SDIST}


def write_wheel(folder, names, readme="A [page](https://example.org/page), [below](#below)."):
    path = folder / "cbir-1.2.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, readme if name.endswith("METADATA") else "")
    return path


def write_sdist(folder, names):
    path = folder / "cbir-1.2.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"cbir-1.2.0/{name}"), io.BytesIO())
    return path


@pytest.mark.parametrize(("write", "names"), [(write_wheel, IN_WHEEL), (write_sdist, IN_SDIST)])
def test_contents_of_distributions(tmp_path, write, names):
    assert distribution_contents.problems(write(tmp_path, names), TRACKED) == []
    path = write(tmp_path, names - {"service/templates/page.html"} | {"tests/test_x.py", "cbir/scan.dcm"})
    assert distribution_contents.problems(path, TRACKED) == [
        f"{path.name} lacks service/templates/page.html",
        f"{path.name} holds cbir/scan.dcm",
        f"{path.name} holds tests/test_x.py",
        f"{path.name} has no service/templates/",
    ]


def test_links_of_a_wheel_to_files_of_the_repository(tmp_path):
    path = write_wheel(tmp_path, IN_WHEEL, "A [page](docs/page.md)")
    (line,) = distribution_contents.problems(path, TRACKED)
    assert line.endswith("with a link to docs/page.md")


def test_a_wheel_has_its_licence(tmp_path):
    path = write_wheel(tmp_path, IN_WHEEL - {"cbir-1.2.0.dist-info/licenses/LICENSE"})
    (line,) = distribution_contents.problems(path, TRACKED)
    assert line.endswith("lacks cbir-1.2.0.dist-info/licenses/LICENSE")


def test_a_wheel_has_the_bundles_of_its_pages(tmp_path):
    path = write_wheel(tmp_path, IN_WHEEL - {BUNDLE})
    assert distribution_contents.problems(path, TRACKED) == [f"{path.name} lacks {BUNDLE}"]


def test_files_of_the_packages_are_those_that_git_tracks(checkout):
    (checkout / "cbir" / "notes.txt").write_text("not added")
    assert distribution_contents.expected_files(checkout) == {"cbir/__init__.py"}
