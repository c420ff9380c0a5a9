"""Command groups whose commands load when they are called, with the summaries and examples of their help."""

import re
from collections import Counter
from difflib import get_close_matches
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
import typer.core
import typer.main

SUMMARIES = {  # by the entry point's object, so that a command of another package never gets one of these
    "service.features.annotate.commands:app": "Learn severity from comparisons of two images.",
    "service.features.audit.command:audit_collection": "Find duplicates, wrong labels, outliers and drift.",
    "cbir.api.commands.show_commands:describe_image": "Print the descriptor of an image or a CT series.",
    "cbir.evaluation.commands.dataset_commands:draw_phantoms": "Draw synthetic images for trying out the program.",
    "cbir.evaluation.commands.evaluate_commands:app": "Measure the quality of search results.",
    "service.features.similar.command:find_similar_cases": "Search for similar studies, series or instances.",
    "cbir.learn.commands.grade_commands:app": "Grade new images by graded ones.",
    "cbir.api.commands.manage_collection:app": "Look after a collection.",
    "cbir.api.commands.manage_encoders:app": "List, show, get and add pretrained networks.",
    "cbir.evaluation.commands.dataset_commands:app": "Prepare a published data set for indexing.",
    "cbir.learn.commands.rank_images:rank_images": "Score images with a trained ranker.",
    "service.features.report.command:report_hits": "Report similar images as a DICOM Structured Report.",
    "cbir.api.commands.search_images:search_images": "Search with images, image ids or text.",
    "cbir.api.commands.show_commands:show_config": "Print settings, their origin and purpose.",
    "cbir.learn.commands.train_models:app": "Train models; needs the extra `deep`.",
    "indexer.index_command:app": "Add files, or a DICOMweb archive, to a collection.",
    "indexer.receive.receive_command:receive": "Receive DICOM images (C-STORE) into a collection.",
    "service.access.audit_commands:app": "Check the service's audit log for changes.",
    "service.features.federation.commands:app": "Search at several hospitals; share a transform.",
    "service.server.service_commands:serve": "Serve collections over HTTP: API and web pages.",
    "service.features.annotate.reader_study.commands:app": "Compare two methods in a blinded reader study.",
    "service.server.state_commands:app": "Check the service's state; move it to PostgreSQL.",
    "service.access.token_commands:app": "Create, list and revoke access tokens.",
    "service.server.service_commands:run_worker": "Run jobs that services have accepted.",
    "service.features.usage.commands:app": "Show, export and delete the usage log of the search page.",
}

EXAMPLES = {
    "annotate agreement": "cbir annotate agreement --study-dir hospital-study",
    "annotate export": "cbir annotate export --study-dir hospital-study --what images --out grades.csv",
    "annotate from-label-studio": "cbir annotate from-label-studio export.json --study-dir hospital-study",
    "annotate label": "cbir annotate label --collection hospital --study-dir hospital-study",
    "annotate serve": "cbir annotate serve --collection hospital --grades 0,1,2,3,4",
    "annotate simulate": "cbir annotate simulate --collection hospital --strategy random --report report",
    "annotate to-label-studio": "cbir annotate to-label-studio --collection hospital --study-dir study --out tasks",
    "audit": "cbir audit --collection hospital --label diagnosis --split part --out audit",
    "audit-log export": "cbir audit-log export --since 2030-01-31",
    "audit-log head": "cbir audit-log head",
    "audit-log verify": "cbir audit-log verify --file audit.jsonl",
    "collection alias": "cbir collection alias current hospital-2",
    "collection backup": "cbir collection backup /backups/hospital --collection hospital",
    "collection build-index": "cbir collection build-index --collection hospital",
    "collection compact": "cbir collection compact --collection hospital --refit",
    "collection compare": "cbir collection compare hospital hospital-2 --report report.html",
    "collection copy": "cbir collection copy hospital 'postgresql+psycopg://cbir@db/images?collection=hospital'",
    "collection delete": "cbir collection delete --collection hospital --where source=test --dry-run",
    "collection erase-patient": "cbir collection erase-patient 4711 --collection hospital --dry-run",
    "collection export": "cbir collection export exported --collection hospital",
    "collection info": "cbir collection info --collection hospital --format json",
    "collection labels": "cbir collection labels --collection hospital",
    "collection quarantine": "cbir collection quarantine --collection hospital --release IMAGE_ID",
    "collection map": "cbir collection map --collection hospital",
    "collection regions": "cbir collection regions --collection hospital",
    "collection redescribe": "cbir collection redescribe hospital-2 --collection hospital --profile lite0-max",
    "collection restore": "cbir collection restore /backups/hospital restored",
    "collection tune": "cbir collection tune --collection hospital --label diagnosis",
    "collection verify": "cbir collection verify --collection hospital",
    "collection to-fiftyone": "cbir collection to-fiftyone hospital-fiftyone --collection hospital",
    "config": "cbir config --format json",
    "dataset fiftyone": "cbir dataset fiftyone exported manifest.csv",
    "dataset irma": "cbir dataset irma release manifest.csv --year 2009 --tree tree.txt",
    "dataset irma-phantoms": "cbir dataset irma-phantoms release.zip --count 300",
    "dataset medmnist": "cbir dataset medmnist pneumoniamnist.npz pneumonia",
    "describe": "cbir describe knee.png --descriptor tamura",
    "encoder add": "cbir encoder add ours network.onnx --card card.json",
    "encoder get": "cbir encoder get timm:resnet18.a1_in1k",
    "encoder list": "cbir encoder list",
    "encoder show": "cbir encoder show lite0-max",
    "evaluate fuse": "cbir evaluate fuse one.run other.run --out fused.run",
    "evaluate irma": "cbir evaluate irma release.zip --out irma --tree tree.txt",
    "evaluate irma-error": "cbir evaluate irma-error --tree tree.txt --truth truth.csv --run answers.txt",
    "evaluate irma-run": "cbir evaluate irma-run --collection irma --queries test.csv --out a.txt --tree tree.txt",
    "evaluate replay": "cbir evaluate replay --collection hospital --rerank none --rerank auto --out replay",
    "evaluate run": 'cbir evaluate run --collection hospital --out results --rerank "none auto"',
    "federate adopt-transform": "cbir federate adopt-transform transform.json --collection hospital",
    "federate check": "cbir federate check --collection hospital",
    "federate export-transform": "cbir federate export-transform transform.json --collection hospital",
    "federate list": "cbir federate list",
    "federate search": "cbir federate search knee.dcm --collection hospital --site north -k 5",
    "grade evaluate": "cbir grade evaluate --collection knees --ranker s-ndcg --ranker cnn --folds 5",
    "grade fit": "cbir grade fit --collection knees --grade-column grade",
    "grade predict": "cbir grade predict knee.png --collection knees",
    "grade slit-lamp features": "cbir grade slit-lamp features lens.png --model lenses",
    "grade slit-lamp fit": "cbir grade slit-lamp fit outlines.csv --out lenses",
    "index dicomweb": "cbir index dicomweb https://pacs.example/dicom-web --collection hospital --modality CT",
    "index files": "cbir index scans --collection hospital --labels labels.csv",
    "phantoms": "cbir phantoms scans --count 60",
    "rank": "cbir rank ranker scans --format json",
    "receive": "cbir receive --collection hospital --peer SCANNER@10.0.0.0/24",
    "report": "cbir report knee.dcm --collection hospital --out report.dcm",
    "search": "cbir search knee.dcm --collection hospital -k 5 --where modality=CR",
    "serve": "cbir serve --collection hospital --port 8000",
    "similar": "cbir similar --collection hospital --study 1.2.840.1 --level study",
    "state copy": "cbir state copy",
    "state verify": "cbir state verify",
    "study create": "cbir study create first --collection hospital --a none --b auto --label modality --queries 40",
    "study delete": "cbir study delete first",
    "study export": "cbir study export first answers.csv",
    "study list": "cbir study list",
    "study report": "cbir study report first --out report.html",
    "token create": "cbir token create --scope search --name viewer --expires 30d",
    "token list": "cbir token list",
    "token revoke": "cbir token revoke 3f2a9c",
    "train embedding": "cbir train embedding --data labels.csv --out embedding --encoder lite0-whole",
    "train ranker": "cbir train ranker --data labels.csv --positive diagnosis=fracture --out ranker",
    "train sorter": "cbir train sorter --out sorter --kind lstm",
    "usage delete": "cbir usage delete --collection hospital",
    "usage export": "cbir usage export usage.csv --collection hospital",
    "usage show": "cbir usage show",
    "worker": "cbir worker --collection hospital",
}


REQUIRED = re.compile(r"^\{(.+)\}")  # Typer's usage of an argument

SUMMARY = 1000  # characters of a summary, which are never reached

WORDS = {
    "str": "TEXT",
    "int": "NUMBER",
    "float": "NUMBER",
    "path": "PATH",
    "file": "FILE",
    "directory": "FOLDER",
}


class StrictCommand(typer.core.TyperCommand):
    """Shows an example in its help, and refuses an option that is given twice and keeps one value."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the epilog, and the example."""
        super().format_epilog(ctx, formatter)
        if example := EXAMPLES.get(command_words(ctx)):
            with formatter.section("Example"):
                formatter.write(f"  {example}\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options with words for their values in place of Python's types."""
        for parameter in self.get_params(ctx):
            name_values(parameter, ctx)
        super().format_options(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Write a required argument as NAME."""
        return [REQUIRED.sub(r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Count the options, then parse as usual: the first value of two would be dropped without a word."""
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(list(args))
            for option, count in Counter(order).items():
                takes_one = not (getattr(option, "multiple", False) or getattr(option, "is_flag", True))
                if count > 1 and takes_one:
                    ctx.fail(f"{option.opts[-1]} is given {count} times, and takes one value.")
        return super().parse_args(ctx, args)


def name_values(parameter: Any, ctx: Any) -> None:
    """Let the help of a parameter name its values by a word, unless it has one or lists them."""
    label = parameter.display_type(ctx).strip("<>")
    if label.startswith("list["):
        label = label[len("list[") : -1]
    label = label.removesuffix(" range")
    word = WORDS.get(label.lower())
    if isinstance(parameter, typer.core.TyperArgument):
        setattr(parameter, "display_type_rich", lambda ctx: "" if word else label)  # noqa: B010 - a method
    elif parameter.metavar is None:
        parameter.metavar = word or label


def command_words(ctx: Any) -> str:
    """Return the words of a command after `cbir`."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, ctx.info_name)
        ctx = ctx.parent
    return " ".join(words)


class WholeSummaries(typer.core.TyperGroup):
    """Lists its commands with the whole first sentence of each."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands."""
        commands: list[tuple[str, Any]] = [
            (name, self.get_command(ctx, name)) for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(SUMMARY)) for name, command in commands])


class LazyCommands(typer.core.TyperGroup):
    """Import a subcommand only when it runs or shows its help. Subclasses name their entry-point group."""

    entry_point_group = "cbir.commands"

    @cached_property
    def _entries(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=self.entry_point_group)}

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted({*self.commands, *self._entries})

    def get_command(self, ctx: Any, name: str) -> Any:
        if name in self.commands:
            return self.commands[name]
        return load_command(self._entries[name]) if name in self._entries else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve a command, and suggest others for a name that there is not."""
        names = self.list_commands(ctx)
        if args[0] not in names and (matches := get_close_matches(args[0], names)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, matches))}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, with their summaries where importing them would take long."""
        rows = []
        for name in self.list_commands(ctx):
            summary = SUMMARIES.get(self._entries[name].value) if name in self._entries else None
            rows.append((name, summary or self.get_command(ctx, name).get_short_help_str(SUMMARY)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def load_command(entry: EntryPoint) -> Any:
    """Load a Typer app as a group, or a plain function as a single command.

    Help texts are plain: with markup on, rich swallows square brackets and the defaults in them.
    """
    loaded = entry.load()
    if not isinstance(loaded, typer.Typer):
        function, loaded = loaded, typer.Typer(add_completion=False)
        loaded.command()(function)
    loaded.rich_markup_mode = None  # Typer hands it down to subcommands
    make_strict(loaded)
    command = typer.main.get_command(loaded)
    command.name = entry.name
    return command


def make_strict(app: typer.Typer) -> None:
    """Make StrictCommand the class of the commands of an app and its groups that have none of their own."""
    if not isinstance(app.info.cls, type):  # by default a placeholder
        app.info.cls = WholeSummaries
    for info in app.registered_commands:
        if info.cls in (None, typer.core.TyperCommand):
            info.cls = StrictCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            make_strict(group.typer_instance)
