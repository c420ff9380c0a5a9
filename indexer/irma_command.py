"""`cbir irma evaluate`: from an IRMA release, extracted with bounds, to error scores."""

import json
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cbir import settings
from cbir.errors import InvalidInput, NotFound, StorageFull
from cbir.evaluation.code_error import ErrorRule
from cbir.evaluation.datasets.dataset_manifests import claim_folder
from cbir.evaluation.datasets.irma.codes import CodeTree
from cbir.evaluation.datasets.irma.release import Release, read_release, write_irma_manifest
from cbir.images import Limits
from cbir.search import command_options as options
from cbir.settings import Settings
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json, results_console
from cbir.system.files import atomic_text, private_folder, write_bytes
from indexer.index_progress import INTERRUPTED, IndexSummary, ProgressReport
from indexer.index_request import IndexRequest
from indexer.index_run import run_request

if TYPE_CHECKING:
    from cbir.evaluation.submission import BenchmarkPlan


SUFFIXES = {".png", ".csv", ".txt"}
MAX_MEMBERS = 100_000
MAX_MEMBER_BYTES = 64 * 2**20
MAX_TOTAL_BYTES = 16 * 2**30
Progress = Callable[[str, int, int], None]


def extract_release(
    archive: Path, folder: Path, on_progress: Callable[[int, int], None] | None = None
) -> int:
    """Extract the pictures and label files of a release; repeat an interrupted call to continue it.

    Parameters
    ----------
    archive : Path
        The zip. Only .png, .csv and .txt files are extracted, and no hidden ones.
    folder : Path
        Folder, created if needed, which belongs to this zip from then on.
    on_progress : callable, optional
        Gets the number of files so far, and of all.

    Returns
    -------
    int
        Number of files.

    Raises
    ------
    InvalidInput
        If the file is no zip or damaged, has names that lead out of the folder, links or encrypted files, is larger
        than a release can be, or the folder belongs to another zip.
    StorageFull
        If the disk lacks the space.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            members = _check_members(archive, opened.infolist())
            claim_folder(archive, folder)
            missing = [member for member in members if not _is_complete(folder / member.filename, member)]
            _check_space(folder, sum(member.file_size for member in missing))
            for done, member in enumerate(missing, start=1 + len(members) - len(missing)):
                path = folder / member.filename
                private_folder(path.parent)
                write_bytes(path, opened.read(member), durable=False)
                if on_progress is not None:
                    on_progress(done, len(members))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InvalidInput(f"{archive} is no zip file, or damaged: {error}") from error
    except OSError as error:
        raise InvalidInput(f"{error.filename or archive}: {error.strerror}") from error
    return len(members)


def _check_members(archive: Path, members: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """Return the files to extract; raise InvalidInput for one that no release has."""
    if len(members) > MAX_MEMBERS:
        raise InvalidInput(f"{archive} has {len(members)} files; at most {MAX_MEMBERS} are extracted")
    usable, names, total = [], set(), 0
    for member in members:
        path = PurePosixPath(member.filename)
        outside = (
            path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in member.filename
        )
        if outside or stat.S_ISLNK(member.external_attr >> 16):
            raise InvalidInput(
                f"{archive}: {member.filename!r} leads out of the folder; nothing is extracted"
            )
        if (
            member.is_dir()
            or path.suffix.lower() not in SUFFIXES
            or any(p.startswith(".") for p in path.parts)
        ):
            continue
        if member.flag_bits & 1:
            raise InvalidInput(f"{archive} is encrypted; extract it with its password, and name the folder")
        if member.file_size > MAX_MEMBER_BYTES:
            raise InvalidInput(f"{archive}: {member.filename!r} has more than {MAX_MEMBER_BYTES} bytes")
        if str(path) in names:
            raise InvalidInput(f"{archive} has two files {member.filename!r}")
        names.add(str(path))
        total += member.file_size
        usable.append(member)
    if total > MAX_TOTAL_BYTES:
        raise InvalidInput(f"{archive} has {total} bytes once extracted; at most {MAX_TOTAL_BYTES} are")
    if not usable:
        raise InvalidInput(f"{archive} has no picture or label file; is it an IRMA release?")
    return usable


def _is_complete(path: Path, member: zipfile.ZipInfo) -> bool:
    return path.is_file() and path.stat().st_size == member.file_size


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StorageFull(f"{folder} needs {needed} bytes for the release, and {free} are free")


@dataclass(frozen=True)
class PreparedRelease:
    """A release with its manifests, train.csv and test.csv of `folder`, and the collection to be."""

    release: Release
    folder: Path

    @property
    def collection(self) -> Path:
        """Folder of the collection of the training images."""
        return self.folder / "collection"


def prepare_release(
    source: Path,
    folder: Path,
    year: str | None,
    labelling: str | None,
    tree: CodeTree | None,
    progress: Progress,
) -> PreparedRelease:
    """Extract a release, unless it is a folder, and write the manifests of its training and test images.

    Parameters
    ----------
    source : Path
        Zip or folder of the release.
    folder : Path
        Folder of the results, created if needed.
    year, labelling, tree
        As for `read_release`.
    progress : callable
        Gets the stage, steps done and steps in all.

    Raises
    ------
    NotFound, InvalidInput
        For a source that is missing or no release, or lacks training or test images.
    """
    if not source.exists():
        raise NotFound(f"there is no zip or folder {source}")
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file; the results need a folder")
    images = source
    if not source.is_dir():
        if not zipfile.is_zipfile(source):
            raise InvalidInput(f"{source} is no zip file; extract other archives, and name the folder")
        images = folder / "release"
        extract_release(source, images, lambda done, total: progress("extracting", done, total))
    release = read_release(images, year, labelling, tree)
    private_folder(folder)
    for split in ("train", "test"):
        if not write_irma_manifest(release, folder / f"{split}.csv", tree, split):
            raise InvalidInput(f"{source} has no usable image in the part {split}")
    return PreparedRelease(release, folder)


def index_training_images(
    prepared: PreparedRelease, profile: str | None, jobs: int, settings: Settings, progress: ProgressReport
) -> IndexSummary:
    """Index the training images, copies of pictures too; continues an interrupted run.

    Parameters
    ----------
    prepared : PreparedRelease
    profile : str or None
        Of a new collection; None for the default.
    jobs : int
        Number of processes.
    settings : Settings
    progress : ProgressReport
    """
    request = IndexRequest(
        [item.path for item in prepared.release.items if item.split == "train"],
        prepared.collection,
        profile,
        labels=prepared.folder / "train.csv",
        jobs=jobs,
        limits=Limits.from_settings(settings),
        decoder_bytes=settings.decoder_bytes,
        decode_seconds=settings.index_decode_seconds,
        device=settings.device,
        duplicates=True,
    )
    return run_request(request, progress, lambda path, reason: None)


def evaluate_irma(
    release: Annotated[
        Path, Argument(metavar="RELEASE", help="Zip or folder of an IRMA release, 2005 to 2009.")
    ],
    out: Annotated[Path, Option(help="Folder for images, collection, submissions and results.json.")],
    tree: Annotated[Path | None, Option(help="IRMA code tree; required for codes, from 2007 on.")] = None,
    year: Annotated[str | None, Option(help="Year of the release. [default: by its files]")] = None,
    labelling: Annotated[
        str | None, Option(help="Labels of the 2009 release: 2005 or 2006 (classes), 2007 or 2008 (codes).")
    ] = None,
    rerank: Annotated[str, Option(help="Re-rankers to compare, or all.")] = "none auto eprf",
    rule: Annotated[ErrorRule | None, Option(help="Scoring rule. [default: that of the release]")] = None,
    profile: Annotated[
        str | None, Option(help=f"A {options.DESCRIPTORS}. [default: as for cbir index]")
    ] = None,
    k: Annotated[int, Option("-k", "--k", min=1, max=1000, help="Most neighbours that vote.")] = 50,
    sample: Annotated[int, Option(min=2, help="Training images for tuning the vote.")] = 1000,
    seed: Annotated[int, Option(min=0, help="Random seed of the sample.")] = 0,
    jobs: Annotated[
        int | None, Option(min=1, help="Processes that index. [default: number of cores]")
    ] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Prepare an IRMA release, index its training images, answer for its test images, and score the answers.

    For each re-ranker the folder gets a submission, NAME.txt. Run an interrupted command again to continue it.
    Without labels of the test images, the expected error stands in for the score.
    """
    from cbir.evaluation import runs
    from cbir.evaluation.datasets.irma.codes import CodeTree
    from cbir.evaluation.datasets.irma.label_files import label_kind
    from cbir.evaluation.submission import BenchmarkPlan, answer_release
    from cbir.system.threads import cores
    from indexer.index_progress import ShownProgress

    rerankers = runs.parse_methods(rerank)
    codes = CodeTree.read(tree) if tree else None
    loaded = settings.load()
    with StageBars() as bars:
        prepared = prepare_release(release, out, year, labelling, codes, bars.show)
    with_codes = label_kind(prepared.release.labelling) == "code"
    if with_codes and codes is None:
        raise InvalidInput("codes need the code tree; name it with --tree")
    summary = index_training_images(prepared, profile, jobs or cores(), loaded, ShownProgress())
    if summary.interrupted:
        raise typer.Exit(INTERRUPTED)
    default = ErrorRule.of_2007 if prepared.release.year == "2007" else ErrorRule.of_2009
    plan = BenchmarkPlan(
        prepared.collection, out, codes if with_codes else None, rule or default, rerankers, k, sample, seed
    )
    with StageBars() as bars:
        results = answer_release(plan, loaded, bars.show)
    facts = _facts(prepared, plan, summary.refused, results)
    with atomic_text(out / "results.json") as file:
        json.dump(facts, file, indent=2)
    if format is OutputFormat.json:
        print_json(facts)
    else:
        _print_results(facts)


def _facts(
    prepared: "PreparedRelease", plan: "BenchmarkPlan", refused: int, results: list[dict[str, Any]]
) -> dict[str, Any]:
    release = prepared.release
    return {
        "release": release.year,
        "labelling": release.labelling,
        "rule": plan.rule.value if plan.tree else None,
        "train": sum(item.split == "train" for item in release.items),
        "test": sum(item.split == "test" for item in release.items),
        "refused": refused,
        "dropped": {reason: len(items) for reason, items in release.dropped.items()},
        "results": results,
    }


def _print_results(facts: dict[str, Any]) -> None:
    from rich.table import Table

    with_codes = facts["rule"] is not None
    measured = "error" if with_codes else "error rate"
    table = Table("method", measured, "per image", "expected per image", "neighbours", box=None)
    for result in facts["results"]:
        score = result.get("measured", {})
        error = score.get("error", score.get("error_rate"))
        table.add_row(
            result["method"],
            "-" if error is None else f"{error:.4f}",
            f"{score['normalised']:.4f}" if "normalised" in score else "-",
            f"{result['estimated_normalised']:.4f}",
            f"{result['neighbours']}",
        )
    rule = f", rule of {facts['rule']}" if with_codes else ""
    console = results_console()
    console.print(
        f"IRMA {facts['release']}: {facts['train']} training and {facts['test']} test images, labels of "
        f"{facts['labelling']}{rule}; lower is better",
        highlight=False,
    )
    console.print(table)
    first = facts["results"][0]
    baselines = first.get("measured", first).get("baselines", first.get("baselines_on_training", {}))
    for name, error in baselines.items():
        echo(f"  {name.replace('_', ' '):26}{error:10.2f}")
    for reason, count in facts["dropped"].items():
        echo(f"dropped: {count} x {reason}", err=True)
    if facts["refused"]:
        echo(f"{facts['refused']} training images cannot be read", err=True)
