"""Images in object stores, by fsspec, and in XNAT: addresses, listing in pages, reading of bounded size.

Endpoint, region and keys come from the environment and the configuration files of the store's own library.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from cbir.errors import InvalidInput, NotFound, UnreadableImage, XnatFailed, XnatSilent
from cbir.images import Image, Limits, decode, read_images
from cbir.ingest.image_files import HEAD_BYTES, has_image_name, starts_like_image

# and the packages that read them
SCHEMES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "xnat": "httpx"}
PAGE = 1000  # objects of one answer to a listing
RETRIES = 2  # of s3fs, each with some of botocore
HEADS = 100  # objects whose first bytes are asked for at once

for _name in ("aiobotocore", "botocore", "s3fs", "fsspec"):  # their messages quote addresses
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class ObjectStoreFailed(UnreadableImage):
    """An object store does not answer, or refuses."""


class StoreSilent(ObjectStoreFailed):
    """An object store does not answer, however often it is asked."""


@dataclass(frozen=True)
class StoredObject:
    """An object, as a listing shows it. stamp: changes when the object does.

    labels: columns and values that the store knows, as in a manifest. is_image: whether the store says so. refused:
    why what is at `url` cannot be listed; "" for an object.
    """

    url: str
    size: int
    stamp: str
    labels: tuple[tuple[str, str], ...] = ()
    is_image: bool = False
    refused: str = ""

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """Name without its prefix."""
        return PurePosixPath(self.url).name


def is_object_url(text: str) -> bool:
    """Return whether a source is in an object store."""
    return text.partition("://")[0] in SCHEMES and "://" in text


def check_object_url(url: str) -> str:
    """Return the address of an object or prefix without a final slash; raises InvalidInput if it is malformed."""
    scheme, separator, rest = url.partition("://")
    bucket = rest.partition("/")[0]
    if not separator or scheme not in SCHEMES:
        raise InvalidInput(
            f"{scheme}:// is not read; write {', '.join(f'{name}://' for name in SCHEMES)}, or a folder"
        )
    if not bucket or set(bucket) & set("@:?#"):  # not repeated: it may hold a key
        raise InvalidInput(
            f"write {scheme}://BUCKET/PREFIX; keys come from the environment, not from the address"
        )
    return url.rstrip("/")


def find_objects(url: str) -> Iterator[StoredObject]:
    """Yield the images below a prefix, or the object that `url` names, in the order of the listing.

    As in folders, what begins with a dot is skipped, and what by name and first bytes is no image.

    Raises
    ------
    NotFound
        If nothing is there.
    ObjectStoreFailed
        If the store refuses, or does not answer.
    """
    is_empty = True
    listing = _list(url)
    while part := list(islice(listing, HEADS)):
        is_empty = False
        visible_entries = [
            entry for entry in part if entry.url == url or not _is_hidden(entry.url[len(url) + 1 :])
        ]
        unknown = [
            entry
            for entry in visible_entries
            if entry.url != url and not entry.is_image and not has_image_name(entry.name)
        ]
        others = _without_image_heads(unknown)
        yield from (entry for entry in visible_entries if entry not in others)
    if is_empty:
        raise NotFound(f"there is no object {url}, and none below it")


def check_there(url: str) -> None:
    """Raise NotFound if there is nothing at or below `url`, ObjectStoreFailed if that cannot be said."""
    if next(_list(url), None) is None:
        raise NotFound(f"there is no object {url}, and none below it")


def find_object(url: str) -> StoredObject | None:
    """Return the object at an address; None if there is none. Raises ObjectStoreFailed if that cannot be said."""
    try:
        return _single(_file_system(url), url)
    except Exception as error:
        raise _failure(url, error) from None


def read_object(stored: StoredObject, limits: Limits) -> bytes:
    """Return the content of an object.

    Raises UnreadableImage if it is too large, gone or changed since it was listed, ObjectStoreFailed if the store
    does not deliver it.
    """
    if stored.refused:
        raise ObjectStoreFailed(stored.refused)
    data = _read(stored.url, stored.size, limits)
    if len(data) != stored.size:
        raise UnreadableImage(f"{stored.name} was changed while it was read; run the command again")
    return data


def read_url(url: str, limits: Limits) -> bytes:
    """Return the content of the object at `url`; raises as `read_object`."""
    _check_name(url)
    try:
        size = int(_file_system(url).info(url)["size"])
    except Exception as error:
        raise _object_failure(url, error) from None
    return _read(url, size, limits)


def read_images_at(source: str, limits: Limits) -> Iterator[Image]:
    """Yield the frames of a file, or of an object in a store; raises as `cbir.images.read_images`, and `read_url`."""
    if is_object_url(source):
        yield from decode(read_url(source, limits), PurePosixPath(source).name, limits=limits)
    else:
        yield from read_images(source, limits=limits)


def _read(url: str, size: int, limits: Limits) -> bytes:
    name = PurePosixPath(url).name
    _check_name(url)
    try:
        limits.check_bytes(size)
    except UnreadableImage as error:
        raise UnreadableImage(f"{name} {error}") from error
    try:
        return bytes(
            _file_system(url).cat_file(url, start=0, end=size + 1)
        )  # one more shows that it has grown
    except FileNotFoundError:
        raise UnreadableImage(f"{name} cannot be read: it is gone") from None
    except Exception as error:
        raise _object_failure(url, error) from None


def _check_name(url: str) -> None:
    """Raise UnreadableImage if s3fs would read another object than the one that the listing shows."""
    if not url.startswith("s3://"):
        return
    bucket, _, key = url.removeprefix("s3://").partition("/")
    if _file_system(url).split_path(url)[:2] != (bucket, key):
        raise UnreadableImage("its name contains ?versionId=, which names a version; rename it")


def _is_hidden(path: str) -> bool:
    """Return whether an object below a prefix is skipped: its name begins with a dot, or it marks a folder."""
    return path.endswith("/") or any(part.startswith(".") for part in path.split("/"))


def _without_image_heads(entries: list[StoredObject]) -> set[StoredObject]:
    """Return the objects that by their first bytes are no images; reading those that fail here says why."""
    filled = [entry for entry in entries if entry.size]
    others = set(entries) - set(filled)
    if filled:
        urls, ends = [entry.url for entry in filled], [min(HEAD_BYTES, entry.size) for entry in filled]
        files = _file_system(urls[0])
        heads = files.cat_ranges(urls, [0] * len(urls), ends, on_error="return")
        pairs = zip(filled, heads, strict=True)
        others |= {entry for entry, head in pairs if isinstance(head, bytes) and not starts_like_image(head)}
    return others


def _list(url: str) -> Iterator[StoredObject]:
    files = _file_system(url)
    try:
        if url.startswith("s3://"):
            yield from _list_s3(files, url)
        elif url.startswith("xnat://"):
            yield from _list_xnat(files, url)
        else:
            yield from _list_folders(files, url)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (InvalidInput, GeneratorExit):
        raise
    except Exception as error:
        raise _failure(url, error) from None


def _list_s3(files: Any, url: str) -> Iterator[StoredObject]:
    """Yield all objects below a prefix, a page at a time: fsspec would list all of them first."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    if prefix and (single := _single(files, url)):
        yield single
        return
    more: dict[str, Any] = {"MaxKeys": PAGE} | ({"Prefix": f"{prefix}/"} if prefix else {})
    while True:
        page = files.call_s3("list_objects_v2", Bucket=bucket, **more)
        for entry in page.get("Contents", ()):
            yield StoredObject(f"s3://{bucket}/{entry['Key']}", entry["Size"], _stamp(entry))
        if not page.get("IsTruncated"):
            return
        more["ContinuationToken"] = page["NextContinuationToken"]


def _list_folders(files: Any, url: str) -> Iterator[StoredObject]:
    """Yield all objects below a prefix, a folder at a time."""
    scheme = url.partition("://")[0]
    if single := _single(files, url):
        yield single
        return
    for _, folders, entries in files.walk(url, detail=True):
        for name in sorted(folders):  # walked in this order
            folders[name] = folders.pop(name)
        for name in sorted(entries):
            entry = entries[name]
            address = f"{scheme}://{entry['name'].lstrip('/')}"
            yield StoredObject(address, int(entry["size"]), _stamp(entry))


def _list_xnat(files: Any, url: str) -> Iterator[StoredObject]:
    """Yield the images below an address of XNAT, whose subjects are patients."""
    for file in files.find(url):
        stamp = _stamp({"size": file.size, "etag": file.digest})
        patient = (("patient", file.subject),)
        yield StoredObject(file.url, file.size, stamp, patient, file.is_dicom, file.refused)


def _single(files: Any, url: str) -> StoredObject | None:
    """Return the object at `url`; None if there is none."""
    try:
        info = files.info(url)
    except FileNotFoundError:
        return None
    return StoredObject(url, int(info["size"]), _stamp(info)) if info["type"] == "file" else None


def _stamp(entry: dict[str, Any]) -> str:
    """Return the size and the hash of the content that the store keeps, or else the time of modification."""
    size = entry["Size"] if "Size" in entry else entry["size"]
    version = next((entry[key] for key in ("ETag", "etag", "content_md5") if entry.get(key)), None)
    if version is None:
        times = ("LastModified", "last_modified", "updated", "mtime", "created")
        version = next((entry[key] for key in times if entry.get(key)), "")
    return f"{size}-{str(version).strip(chr(34))}"


def _failure(url: str, error: Exception) -> ObjectStoreFailed:
    """Say in one line why a store failed, without what the store or the library says: it may quote keys."""
    scheme, _, rest = url.partition("://")
    if isinstance(error, XnatFailed):
        return StoreSilent(str(error)) if isinstance(error, XnatSilent) else ObjectStoreFailed(str(error))
    bucket_url = f"{scheme}://{rest.partition('/')[0]}"
    name = type(error).__name__
    if isinstance(error, PermissionError) or "Credential" in name or "Token" in name:
        return ObjectStoreFailed(
            f"{bucket_url} cannot be read: it refuses the credentials in the environment, or there are none"
        )
    if isinstance(error, FileNotFoundError):
        return ObjectStoreFailed(f"{bucket_url} cannot be read: the object or the bucket is gone")
    return StoreSilent(f"{bucket_url} cannot be read: the store does not answer as it should ({name})")


def _object_failure(url: str, error: Exception) -> ObjectStoreFailed:
    """Return the failure of an object; of the store only if a listing, a cheap question, fails too."""
    failure = _failure(url, error)
    is_overloaded = isinstance(error, XnatSilent) and error.is_overloaded
    if not isinstance(failure, StoreSilent) or is_overloaded or not _is_answering(url):
        return failure
    return ObjectStoreFailed(f"it is not delivered, though the store answers: {failure}")


def _is_answering(url: str) -> bool:
    """Return whether a store lists what is in the bucket of `url`."""
    scheme, _, rest = url.partition("://")
    bucket = rest.partition("/")[0]
    try:
        files = _file_system(url)
        if scheme == "s3":
            files.call_s3("list_objects_v2", Bucket=bucket, MaxKeys=1)
        elif scheme == "xnat":
            files.check(url)
        else:
            files.info(f"{scheme}://{bucket}")
    except Exception:
        return False
    return True


@cache
def _file_system_of(scheme: str) -> Any:
    if scheme == "xnat":
        from cbir.ingest.xnat_store import open_store

        return open_store()
    try:
        import fsspec

        files = fsspec.filesystem(scheme, use_listings_cache=False, skip_instance_cache=True)
        files.retries = RETRIES
        return files
    except ImportError as error:
        missing = getattr(error, "name", None)
        if missing in ("fsspec", "s3fs"):
            raise
        if scheme == "s3":
            raise ModuleNotFoundError("no s3fs", name="s3fs") from None
        raise InvalidInput(f"{scheme}:// needs {SCHEMES[scheme]}: pip install {SCHEMES[scheme]}") from None


def _file_system(url: str) -> Any:
    return _file_system_of(url.partition("://")[0])
