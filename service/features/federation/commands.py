"""`cbir admin federate`: search at several sites, compare them, and share a transform."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from cbir import settings
from cbir.errors import InvalidInput
from cbir.search import command_options as options
from cbir.system.console import (
    OutputFormat,
    Printed,
    StageBars,
    echo,
    print_json,
    print_values,
    results_console,
)

if TYPE_CHECKING:
    from cbir.search import Answer
    from cbir.settings import Settings
    from service.features.federation.site_client import SiteClient

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Search at several hospitals; share a transform. Sites are named in the settings, as [sites.NAME].",
)
SHOWN = {"images", "labels", "thumbnails", "ids", "transform"}  # of a profile
SiteNames = Annotated[list[str] | None, Option("--site", help="Name of a site [all]. Repeatable.")]


@app.command("list")
def list_sites(format: Printed = OutputFormat.text) -> None:
    """List the sites of the settings; asks none of them."""
    sites = settings.load().sites
    if format is OutputFormat.json:
        print_json([{"name": name, **site.model_dump(mode="json")} for name, site in sites.items()])
        return
    for name, site in sites.items():
        certificate = "own certificate" if site.certificate else "no certificate"
        token = "token" if site.token_file else "no token"
        echo(f"{name:20} {site.url}  {token}, {certificate}, {site.seconds:g} s")
    if not sites:
        echo("There are no sites; name them in cbir.toml as [sites.NAME] with url and token_file.")


@app.command()
def check(collection: options.Folder, site: SiteNames = None, format: Printed = OutputFormat.text) -> None:
    """Compare profile and transform with those of the sites; sends no vector. Exit code 1 if one differs or fails."""
    from cbir.store import Collection
    from service.features.federation.bounded_request import SiteFailed
    from service.features.federation.site_agreement import difference, site_profile

    loaded = settings.load()
    clients = _choose(loaded, site)
    with Collection(collection) as opened:
        own_profile = site_profile(opened, loaded)
    rows = list[dict[str, object]]()
    for client in clients:
        row: dict[str, object] = {"site": client.name, "problem": None, "images": None}
        try:
            profile = client.profile(fresh=True)
            row |= {"problem": difference(own_profile, profile)} | profile.model_dump(include=SHOWN)
        except (SiteFailed, InvalidInput) as error:
            row["problem"] = str(error)
        rows.append(row)
    if format is OutputFormat.json:
        print_json(rows)
    else:
        for row in rows:
            state = row["problem"] or f"agrees; {row['images']} images"
            echo(f"{row['site']}: {state}")
    raise typer.Exit(1 if any(row["problem"] for row in rows) else 0)


@app.command()
def search(
    image: Annotated[str, Argument(metavar="IMAGE", help="Image file, or id:IMAGE_ID.")],
    collection: options.Folder,
    site: SiteNames = None,
    k: Annotated[int, Option("-k", help="Number of results.", min=1)] = 20,
    where: options.Where = None,
    rerank: Annotated[
        str | None, Option(help="Re-ranker that each site uses among its own images. [default: none]")
    ] = None,
    frame: options.Frame = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Search in a collection and at other sites, which get the vector of the image and nothing else."""
    from cbir.api.collection_search import OpenCollection, build_request
    from cbir.ingest.query_file import QueryOptions
    from cbir.search.search_options import ID
    from service.access.security import open_audit_log_of_commands
    from service.features.federation.federated_search import method_for_sites, search_sites
    from service.features.federation.site_client import FederatedRequest
    from service.state.database import open_state

    loaded = settings.load()
    clients = _choose(loaded, site)
    log = open_audit_log_of_commands(loaded, open_state(loaded))  # before anything leaves
    method = method_for_sites(rerank)
    with OpenCollection(collection, loaded) as db:
        if image.startswith(ID):
            vector = db.collection.vector(image.removeprefix(ID))
            query = build_request(k=k, rerank=method, where=where or [], examples=[image.removeprefix(ID)])
            local: Answer = db.answer([], query, None, None)
        else:
            opened = db.read(Path(image), QueryOptions(frame, None, None))
            vector = db.collection.profile.load_descriptor(loaded.device)(opened)
            local = db.answer([], build_request(k=k, rerank=method, where=where or []), None, vector)
        request = FederatedRequest(k, where or [], method)
        sent = list[str]()
        try:
            answer = search_sites(clients, db.collection, loaded, vector, request, local, sent)
        finally:  # what has left is logged after Ctrl-C too
            log.write(None, "", "search", [], 200, sent=sorted(sent))
            log.close()
    if format is OutputFormat.json:
        typer.echo(answer.model_dump_json(exclude={"grouping", "agreement"}))
    else:
        _print_answer(answer)


@app.command("export-transform")
def export_transform(
    out: Annotated[Path, Argument(help="JSON file to write.")], collection: options.Folder
) -> None:
    """Write what normalises the vectors of a collection to a file, for other sites to take over."""
    from cbir.store import Collection
    from service.features.federation.site_agreement import TransformFile

    with Collection(collection) as opened:
        transform = TransformFile.of_collection(opened)
    transform.write(out)
    echo(f"wrote the transform {transform.fingerprint[:8]} of the profile {transform.profile} to {out}")


@app.command("adopt-transform")
def adopt_transform(
    file: Annotated[Path, Argument(help="File that `cbir admin federate export-transform` wrote.")],
    collection: options.Folder,
    format: Printed = OutputFormat.text,
) -> None:
    """Normalise a collection by the transform in a file, and keep it as the collection grows.

    Do it at every site, also where the file comes from. `cbir collection compact --refit` ends it.
    """
    from cbir.store import Collection
    from cbir.store.snapshot.stored_snapshot import transform_origin
    from service.features.federation.site_agreement import TransformFile

    transform = TransformFile.read(file)
    with Collection(collection) as opened:
        statistics = transform.statistics_for(opened)
        fitted_here = transform.origin == transform_origin(opened.secret)
        with opened.writer() as writer, StageBars() as bars:
            bars.show("rebuilding the index")
            writer.adopt_statistics(statistics, fitted_here)
        images = opened.count()
    values = {"images": images, "transform": transform.fingerprint, "fitted_here": fitted_here}
    print_values(values, format)


def _choose(loaded: "Settings", names: list[str] | None) -> "list[SiteClient]":
    from service.features.federation.site_client import Sites

    return Sites(loaded.sites).choose(names or [])


def _print_answer(answer: "Answer") -> None:
    from rich.table import Table

    table = Table("rank", "site", "image", "distance", "labels", box=None)
    for hit in answer.results:
        labels = " ".join(f"{key}={value}" for key, value in hit.labels.items())
        table.add_row(str(hit.rank), hit.site or "-", hit.image_id, f"{hit.distance:.3f}", labels)
    console = results_console()
    console.print(table)
    for report in answer.sites or []:
        name = report.name or "this collection"
        state = report.problem or f"{report.results} of {len(answer.results)} results, {report.images} images"
        style = "yellow" if report.problem else "dim"
        console.print(f"{name}: {state}", style=style)
        for note in report.notes:
            console.print(f"{name}: {note}", style="yellow")
    for note in answer.rerank.notes:
        console.print(note, style="yellow")
