"""`cbir collection copy`, `alias`, `delete`, `erase-patient`, `build-index` and `regions`."""

import sys
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from cbir.errors import CbirError, CollectionBusy, InvalidInput
from cbir.search import command_options as options
from cbir.search.command_options import folder_only
from cbir.store.collection_address import address_or_folder, collection_folder
from cbir.store.index.follow_index import follow_index
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_values

if TYPE_CHECKING:
    from cbir.store import Collection
    from cbir.store.index.open_index import CollectionIndex


CHANGED = (
    "others have written to the source meanwhile, and the copy may lack that: "
    "stop them, delete the copy and copy again"
)
Yes = Annotated[bool, Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, Option("--dry-run", help="Say how many images there are, and change nothing.")]


def copy_whole_collection(
    source: Annotated[
        Path,
        Argument(parser=collection_folder, metavar="SOURCE", help="Folder or address of the collection."),
    ],
    target: Annotated[
        Path,
        Argument(
            parser=collection_folder,
            metavar="TARGET",
            help="New folder, or an address without a collection.",
        ),
    ],
    format: Printed = OutputFormat.text,
) -> None:
    """Copy a collection, for example from a folder into PostgreSQL or back, and compare the copy with it.

    The copy has the same ids, numbers, vectors, labels, history, models, statistics, thumbnails, originals,
    quarantine and key of patients. An interrupted copy leaves no collection. Map and cells of regions are not
    copied: compute them again.

    Exit code 1: others have written to the collection meanwhile, and the copy may lack that.
    """
    from cbir.store import Collection
    from cbir.store.upkeep.collection_copy import copy_collection

    with Collection(source) as opened, StageBars() as bars:
        copied = copy_collection(opened, target, bars.show)
    addresses = {"source": address_or_folder(source), "target": address_or_folder(target)}
    print_values({**addresses, **asdict(copied), "verified": True}, format)
    if copied.changed_meanwhile:
        echo(CHANGED, err=True)
        raise typer.Exit(1)


def set_alias(
    alias: Annotated[Path, Argument(help="The alias, NAME.alias; or a folder, to list the aliases in it.")],
    folder: Annotated[
        Path | None,
        Argument(
            parser=folder_only,
            metavar="FOLDER",
            help="Folder of a collection beside the alias, to switch to. [default: show the current]",
        ),
    ] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Switch an alias to another collection, or show where it leads.

    Every command takes an alias in place of a collection's folder. `cbir serve --collection chest.alias` serves its
    collection as `chest`, and opens the other one for the next request when the alias is switched.
    """
    from cbir.store import Collection
    from cbir.store.collection_address import list_aliases, resolve_alias, write_alias

    if folder is None and alias.is_dir():
        print_values(list_aliases(alias), format)
        return
    if folder is not None:
        with Collection(folder) as collection:
            collection.view()  # a collection that cannot be searched is no collection to switch to
        write_alias(alias, folder)
    print_values({"alias": str(alias), "folder": str(resolve_alias(alias))}, format)


def delete_from_collection(
    collection: options.Folder,
    image_ids: Annotated[list[str] | None, Argument(metavar="IMAGE_ID", help="Ids of the images.")] = None,
    where: Annotated[
        list[str] | None, Option(metavar="CONDITION", help="Also delete images with this label. Repeatable.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    format: Printed = OutputFormat.text,
) -> None:
    """Delete images for good: indexing their folder again skips them. Exit code 1 if an id is unknown."""
    from cbir import settings
    from cbir.store import Collection
    from cbir.store.erasure import erase_deleted

    loaded = settings.load()
    if not image_ids and not where:
        raise InvalidInput("name the images to delete by id, or with --where")
    with Collection(collection) as opened:
        by_number = opened.image_ids()
        ids = set(image_ids or [])
        if where:
            numbers = opened.matching_numbers(opened.conditions(where))
            ids |= {by_number[number] for number in numbers.tolist() if number in by_number}
        count = len(ids & set(by_number.values()))
        if dry_run:
            print_values({"would_delete": count}, format)
            return
        confirm(f"delete {count} of {len(by_number)} images for good", count, yes)
        with opened.writer() as writer, StageBars() as bars:
            bars.show("deleting")
            erase_deleted(loaded, writer.existing_images(sorted(ids)))
            deleted = writer.delete(sorted(ids))
    follow_index(collection, loaded)
    unknown = sorted(ids - set(deleted))
    print_values({"deleted": len(deleted), "unknown": " ".join(unknown) or None}, format)
    raise typer.Exit(1 if unknown else 0)


def erase_patient(
    collection: options.Folder,
    patient: Annotated[str, Argument(help="Patient key, or the identifier that it was made from.")],
    yes: Yes = False,
    dry_run: DryRun = False,
    format: Printed = OutputFormat.text,
) -> None:
    """Remove every trace of a patient from every file of the collection. Exit code 1 if there was none.

    Images of other patients with the same pixels as an instance of this patient stay, and are named: delete them with
    `cbir collection delete` if they show the same person.

    Saved cases, usage log and reader studies lose them too: set state_folder and state_database as for the service.

    The normalisation is fitted again, so that distances change a little: the old one could reveal the erased images.
    """
    from cbir import settings
    from cbir.store import Collection
    from cbir.store.erasure import erase_everywhere
    from cbir.store.upkeep.archive_instances import images_with_pixels_of
    from cbir.store.upkeep.quarantine_release import count_of_patients

    with Collection(collection) as opened:
        keys = patient_keys(opened, patient)
        count = sum(key in keys for key in opened.patient_keys().values()) + count_of_patients(opened, keys)
        same_pixels = images_with_pixels_of(opened, keys)
        listed = same_pixels if format is OutputFormat.json else " ".join(same_pixels)
        shared = {"with_the_same_pixels": listed} if same_pixels else {}
        if dry_run:
            print_values({"would_erase": count, **shared}, format)
            return
        confirm(f"erase {count} of {len(opened)} images, and every trace of the patient", count, yes)
        try:
            with opened.writer() as writer, StageBars() as bars:
                bars.show("erasing")
                erased = erase_everywhere(writer, settings.load(), keys)
        except BaseException:  # the images may be erased, and a feature have failed after that
            with suppress(CbirError):
                follow_index(collection, settings.load())
            raise
        follow_index(collection, settings.load())
    print_values({"erased": erased, **shared}, format)
    raise typer.Exit(0 if erased or same_pixels else 1)


def patient_keys(collection: "Collection", patient: str) -> list[str]:
    """Return the keys that a `patient` may have: the text itself, and its keyed hash."""
    from cbir.store.records.records import hash_patient

    return [key for key in (patient, hash_patient(collection.secret, patient)) if key]


def can_ask() -> bool:
    """Return whether a person can answer."""
    return sys.stdin.isatty()


def confirm(change: str, count: int, yes: bool) -> None:
    """Ask on a terminal before a change that cannot be undone.

    Parameters
    ----------
    change : str
        Infinitive, such as "delete 3 images".
    count : int
        Images that it concerns; without any there is nothing to ask.
    yes : bool
        Do not ask.

    Raises
    ------
    InvalidInput
        If no one can answer.
    typer.Abort
        If the answer is no.
    """
    if yes or not count:
        return
    if not can_ask():
        raise InvalidInput(f"this would {change}; add --yes to do it, or --dry-run to count only")
    typer.confirm(f"{change[0].upper()}{change[1:]}?", abort=True, err=True)


def build_index(
    collection: options.Folder,
    drop: Annotated[bool, Option("--drop", help="Delete the index.")] = False,
    rebuild: Annotated[
        bool, Option("--rebuild", help="Build a vector index anew, also if it only has to follow.")
    ] = False,
    format: Printed = OutputFormat.text,
) -> None:
    """Build the vector index that the setting `index` names, or let it follow the collection.

    The index `flat` is a part of each snapshot, and needs no command.
    """
    from cbir import settings
    from cbir.store import Collection
    from cbir.store.collection_address import address_or_folder
    from cbir.store.index.open_index import open_index

    active_settings = settings.load()
    with Collection(collection) as opened:
        index = open_index(opened, active_settings)
        if index is None:
            raise InvalidInput(
                f"the setting index is {active_settings.index}, and this collection is searched in its snapshot, "
                "which needs no other index; name ivf, hnsw, pgvector or milvus://host:port"
            )
        values = _build_vector_index(opened, index, drop, rebuild)
        print_values({"folder": address_or_folder(opened.folder), **values}, format)


def _build_vector_index(
    collection: "Collection", index: "CollectionIndex", drop: bool, rebuild: bool
) -> dict[str, object]:
    from cbir.store.collection_address import address_or_folder

    with StageBars() as bars:
        if drop:
            done = index.follower.drop()
            index.neighbours.update()
        else:
            if collection.statistics() is None:
                address = address_or_folder(collection.folder)
                raise InvalidInput(
                    f"{address} has no snapshot to index; `cbir collection compact --collection {address}` writes one"
                )
            bars.show("building the index")
            done = index.follower.follow(
                rebuild, lambda images, total: bars.show("building the index", images, total)
            )
            done = done and index.neighbours.update(
                partial(bars.show, "reading vectors for the graph of neighbours"), requested=True
            )
    if not done:
        raise CollectionBusy(
            "another process is building or following the index; wait for it to end, then try again"
        )
    return {name: value for name, value in asdict(index.status()).items() if value is not None and not drop}


def compute_regions(collection: options.Folder, format: Printed = OutputFormat.text) -> None:
    """Compute the cells of the images, in which a region is searched for anywhere; for encoders.

    Run it again for images that were added later. Ctrl-C ends it, and the next run goes on from there.
    """
    from cbir.api.region_cells import compute_cells
    from cbir.store import Collection

    started = monotonic()
    with Collection(collection) as opened:
        with StageBars() as bars:
            counts = compute_cells(opened, partial(bars.show, "computing cells"))
        print_values(
            {
                "folder": address_or_folder(opened.folder),
                "images": counts.images,
                "added": counts.added,
                "without picture": counts.without_picture,
                "seconds": round(monotonic() - started, 1),
            },
            format,
        )
