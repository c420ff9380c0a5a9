"""Manifest of a folder of files that do not change: `SHA256SUMS`, which `sha256sum --check` reads too."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from cbir.errors import CollectionDamaged
from cbir.store.base.permissions import file_mode
from cbir.system.atomic import write_bytes

MANIFEST_NAME = "SHA256SUMS"
END = "# of the lines above: "  # `sha256sum` passes over comments


def write_sums(folder: Path, names: Iterable[str], durable: bool = True) -> None:
    """Write the manifest of a folder atomically.

    Parameters
    ----------
    folder : Path
        Folder that they are in.
    names : iterable of str
        Files, by their path inside `folder`.
    durable : bool
        Sync it to the disk.
    """
    _store(folder, {name: _file_hash(folder / name) for name in names}, durable)


def update_sums(folder: Path, written: Iterable[str] = (), leave_out: Iterable[str] = ()) -> None:
    """Note files that were `written`, and leave others out before they change; nothing without a manifest.

    Raises CollectionDamaged if the manifest itself is damaged.
    """
    hashes = read_sums(folder)
    if hashes is None:
        return
    left_out = set(leave_out)
    changed = {name: text for name, text in hashes.items() if name not in left_out}
    changed |= {name: _file_hash(folder / name) for name in written}
    if changed != hashes:
        _store(folder, changed)


def read_sums(folder: Path) -> dict[str, str] | None:
    """Return the hashes of the files in `folder` by name; None without a manifest. Raises CollectionDamaged."""
    damaged = CollectionDamaged(f"the manifest {MANIFEST_NAME} of {folder} is damaged")
    try:
        content = (folder / MANIFEST_NAME).read_bytes()
        lines = content.decode().splitlines()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise damaged from None
    hashes = dict(line.split("  ", 1)[::-1] for line in lines[:-1] if "  " in line)
    if content != _render(hashes):
        raise damaged
    return hashes


def changed_files(folder: Path, only: Iterable[str] | None = None) -> list[str]:
    """Return the files that are missing, or not what the manifest says; none without a manifest.

    Parameters
    ----------
    folder : Path
        Folder with the manifest.
    only : iterable of str, optional
        Names of the files to read; all by default.

    Raises
    ------
    CollectionDamaged
        If the manifest itself is damaged.
    """
    hashes = read_sums(folder) or {}
    names = hashes.keys() if only is None else hashes.keys() & set(only)
    return [name for name in sorted(names) if not _has_hash(folder / name, hashes[name])]


def _has_hash(path: Path, expected: str) -> bool:
    try:
        return _file_hash(path) == expected
    except OSError:
        return False


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _store(folder: Path, hashes: dict[str, str], durable: bool = True) -> None:
    write_bytes(folder / MANIFEST_NAME, _render(hashes), permissions=file_mode(folder), durable=durable)


def _render(hashes: dict[str, str]) -> bytes:
    lines = "".join(f"{text}  {name}\n" for name, text in sorted(hashes.items())).encode()
    return lines + f"{END}{hashlib.sha256(lines).hexdigest()}\n".encode()
