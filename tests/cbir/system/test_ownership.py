"""What root makes in the folder of another user is that user's, and nothing else is given away."""

import os
import stat
from pathlib import Path

import pytest

from cbir.errors import AccessDenied
from cbir.system import ownership
from cbir.system.files import private_folder, write_bytes
from cbir.system.ownership import create_file, give_folder, make_folder, open_existing, open_or_create

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has other owners")
USER, GROUP = 4711, 4712
ONLY_ROOT = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of another user than root, to which this process seems to belong."""
    made = tmp_path / "folder"
    made.mkdir()
    if os.geteuid() == 0:
        os.chown(made, USER, GROUP)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return made


@pytest.fixture
def given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """What is given to the owner of the folder."""
    paths: set[Path] = set()
    change = os.fchown

    def note(file: int, user: int, group: int) -> None:
        status, owner = os.fstat(file), folder.stat()
        assert (user, group) == (owner.st_uid, owner.st_gid)
        paths.update(path for path in folder.rglob("*") if os.path.samestat(path.lstat(), status))
        change(file, user, group)

    monkeypatch.setattr(os, "fchown", note)
    return paths


def close(file: int) -> None:
    os.close(file)


def test_new_files_and_folders_are_given(folder: Path, given: set[Path]) -> None:
    write_bytes(folder / "file", b"content")
    close(create_file(folder / "created", os.O_WRONLY))
    close(open_or_create(folder / "lock", os.O_RDWR))
    assert {path.name for path in given} == {"file.partial", "created", "lock"}
    assert {path.stat().st_uid for path in folder.iterdir()} == {folder.stat().st_uid}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


@ONLY_ROOT
def test_new_folders_are_given_with_what_is_in_them(folder: Path) -> None:
    private_folder(folder / "state" / "inner")
    write_bytes(folder / "state" / "inner" / "file", b"content")
    make_folder(folder / "one" / "two", parents=True)
    assert {path.stat().st_uid for path in folder.rglob("*")} == {USER}
    partial = folder / "copy.partial"
    partial.mkdir(mode=0o700)
    (partial / "inner").mkdir()
    (partial / "inner" / "file").touch()
    (folder.parent / "roots").touch()
    (partial / "link").symlink_to(folder.parent / "roots")
    os.link(folder.parent / "roots", partial / "hard")
    os.link(partial / "inner" / "file", partial / "again")
    give_folder(partial)
    partial.rename(folder / "copy")
    names = {path.name: path.lstat().st_uid for path in (folder / "copy").rglob("*")}
    assert names == {"inner": USER, "file": USER, "again": USER, "link": 0, "hard": 0}
    assert (folder / "copy").stat().st_uid == USER


def test_what_was_there_keeps_its_owner(folder: Path, given: set[Path]) -> None:
    (folder / "lock").touch()
    (folder / "inner").mkdir()
    close(open_or_create(folder / "lock", os.O_RDWR))
    make_folder(folder / "inner", exist_ok=True)
    with pytest.raises(FileExistsError):
        make_folder(folder / "inner")
    with pytest.raises(FileExistsError):
        create_file(folder / "lock", os.O_WRONLY)
    assert not given


def test_links_that_the_owner_has_planted_are_not_followed(
    folder: Path, given: set[Path], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"of root")
    owner = secret.stat().st_uid
    for name in ("lock", "file", "file.partial", "created"):
        (folder / name).symlink_to(secret)
    (folder / "nowhere").symlink_to(tmp_path / "missing")
    (folder / "inner").symlink_to(tmp_path)
    for path in (folder / "lock", folder / "nowhere"):
        with pytest.raises(OSError, match="symbolic link"):
            open_or_create(path, os.O_RDWR | os.O_TRUNC)
    with pytest.raises(FileExistsError):
        create_file(folder / "created", os.O_WRONLY)
    write_bytes(folder / "file", b"content")
    make_folder(folder / "inner", exist_ok=True)
    assert secret.read_bytes() == b"of root"
    assert secret.stat().st_uid == owner
    assert not (tmp_path / "missing").exists()
    assert {path.name for path in given} == {"file.partial"}


@ONLY_ROOT
def test_links_to_folders_are_followed_only_to_those_of_who_made_them(folder: Path, tmp_path: Path) -> None:
    roots, own = tmp_path / "roots", tmp_path / "own"
    for name, target in (("planted", roots), ("linked", own)):
        (target / "inner").mkdir(parents=True)
        (folder / name).symlink_to(target)
        os.lchown(folder / name, USER, GROUP)
    for path in (own, own / "inner"):
        os.chown(path, USER, GROUP)
    for path in (folder / "planted" / "file", folder / "planted" / "inner" / "file"):
        with pytest.raises(AccessDenied, match="planted is a link of another user"):
            write_bytes(path, b"content")
        with pytest.raises(AccessDenied, match="planted is a link of another user"):
            open_existing(path, os.O_RDONLY)
    assert [path.name for path in roots.rglob("*")] == ["inner"]
    write_bytes(folder / "linked" / "inner" / "file", b"content")
    assert (own / "inner" / "file").stat().st_uid == USER


def test_a_folder_that_is_exchanged_meanwhile_gives_nothing_away(
    folder: Path, given: set[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = tmp_path / "roots"
    roots.mkdir()
    opened = os.open

    def exchange(path: object, *arguments: int, **more: int) -> int:
        file = opened(path, *arguments, **more)  # type: ignore[arg-type]
        if path == folder:
            folder.rename(tmp_path / "moved")
            folder.symlink_to(roots)
        return file

    monkeypatch.setattr(os, "open", exchange)
    monkeypatch.setattr(os, "fchown", lambda file, user, group: None)
    close(create_file(folder / "created", os.O_WRONLY))
    assert not list(roots.iterdir())
    assert (tmp_path / "moved" / "created").exists()


def test_a_file_system_that_keeps_owners_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: int, user: int, group: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    write_bytes(folder / "file", b"content")
    assert (folder / "file").read_bytes() == b"content"


def test_users_other_than_root_give_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delattr(os, "fchown")
    write_bytes(tmp_path / "file", b"content")
    make_folder(tmp_path / "inner")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == ownership.OWNER_FILE


def test_a_file_that_another_process_has_just_made_is_opened(
    folder: Path, given: set[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    create = ownership.create_file

    def late(path: Path, flags: int, mode: int = 0o600) -> int:
        path.write_bytes(b"theirs")
        return create(path, flags, mode)

    monkeypatch.setattr(ownership, "create_file", late)
    close(open_or_create(folder / "lock", os.O_RDWR))
    assert (folder / "lock").read_bytes() == b"theirs"
    assert not given
