"""Options that several commands share."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Context, Option

from cbir.errors import InvalidInput
from cbir.store.collection_address import collection_folder
from cbir.system.addresses import is_collection_address

if TYPE_CHECKING:
    from cbir.store import Collection

DESCRIPTORS = (
    "descriptor, encoder, folder of a trained embedding, or NETWORK+DESCRIPTOR"  # what --profile takes
)

FOLDER_OR_ADDRESS = "FOLDER|ADDRESS"  # of a collection, read by `collection_folder`

COLLECTION_VARIABLE = "CBIR_COLLECTION"


def _of_collection(more: str = "") -> Any:
    """Return the option that names a collection; `more` ends its help."""
    return Option(
        "--collection",
        parser=collection_folder,
        envvar=COLLECTION_VARIABLE,
        metavar=FOLDER_OR_ADDRESS,
        help=f"Folder of the collection, or its address in PostgreSQL{more}.",
    )


def _or_collection_of_variable(context: Context, folders: list[Path]) -> list[Path]:
    """Return the collection that the variable names where no option names any."""
    if not folders and not context.resilient_parsing:
        if name := os.environ.get(COLLECTION_VARIABLE):
            return [collection_folder(name)]
        context.fail(f"Missing option '--collection' (env var: '{COLLECTION_VARIABLE}').")
    return folders


Folder = Annotated[Path, _of_collection()]
OptionalFolder = Annotated[Path | None, _of_collection()]
ServedFolders = Annotated[
    list[Path],
    Option(
        "--collection",
        parser=collection_folder,
        default_factory=list,
        callback=_or_collection_of_variable,
        show_default=False,
        metavar=FOLDER_OR_ADDRESS,
        help="Folder, alias, or address in PostgreSQL of a collection; requests use its name. Repeatable. "
        f"Without it, {COLLECTION_VARIABLE} names the only one.",
    ),
]
CreatedFolder = Annotated[Path, _of_collection("; created if it does not exist")]
FindText = Annotated[
    bool,
    Option(
        "--find-text",
        help="Also look for text in the pixels, and leave out pictures with any; needs the extra intake.",
    ),
]
Frame = Annotated[int | None, Option(help="Frame of a multi-frame file, from 1.")]
Rerank = Annotated[
    str | None,
    Option(metavar="METHOD", help="Re-ranker: auto, none, eprf, ...; an unknown name lists all."),
]
Parameter = Annotated[
    list[str] | None,
    Option(metavar="NAME=VALUE", help="Parameter of a re-ranker, for example P=9. Repeatable."),
]
Where = Annotated[
    list[str] | None,
    Option(
        metavar="CONDITION",
        help="Only images with this label, as modality=CT; also != < <= > >=, KEY? and !KEY?. Repeatable: all must "
        "hold, of several values of one key any.",
    ),
]

# Of commands that train or run networks
Manifest = Annotated[Path, Option(help="Manifest: a CSV file with a column `path` and labels.")]
TrainingFolder = Annotated[
    Path, Option(help="Folder for model, report and checkpoint; an interrupted training continues there.")
]
Side = Annotated[int, Option(min=32, max=1024, help="Side in pixels that images are scaled to.")]
Augment = Annotated[bool, Option(help="Rotate, shift and brighten training images slightly.", hidden=True)]
SaveEvery = Annotated[float, Option(help="Seconds between checkpoints.", hidden=True)]
Seed = Annotated[int, Option(help="Random seed of the split and of training.")]
Threads = Annotated[int, Option(min=0, help="CPU threads; 0: all.")]
Device = Annotated[str, Option("--device", help="cpu or cuda.")]

# Of losses
Sorter = Annotated[
    str | None,
    Option(
        help="Sorter of the sodeep losses: pairwise, handcrafted, lstm, cnn, or what `cbir train sorter` wrote.",
        hidden=True,
    ),
]
TuneSorter = Annotated[
    bool, Option("--tune-sorter", help="Train the sorter too; otherwise it is frozen.", hidden=True)
]
Form = Annotated[
    str | None,
    Option(
        help="Form of sodeep-map: ranks (the paper's eq. 7), precision, log; of s-ndcg: sigmoid, paper.",
        hidden=True,
    ),
]
Margin = Annotated[
    float | None,
    Option(
        help="Margin of sodeep-recall, in ranks; of triplet and contrastive in distances, of partial-auc in scores.",
        hidden=True,
    ),
]
Temperature = Annotated[
    float | None,
    Option(
        help="Width of the sigmoids of smooth-ap, roadmap, recall-at-k and the sorter pairwise; divisor of the "
        "logits of supcon and rank-n-contrast; lambda of partial-auc.",
        hidden=True,
    ),
]
Alpha = Annotated[float | None, Option(help="Steepness of s-ndcg.", hidden=True)]
Gamma = Annotated[float | None, Option(help="Focus of focal; 0 is cross-entropy.", hidden=True)]
Parallel = Annotated[
    str | None,
    Option(help="Loss on single scores, added in the first epochs: l1 or soft-margin.", hidden=True),
]
ParallelEpochs = Annotated[int, Option(min=1, help="Epochs with the --parallel loss.", hidden=True)]


def folder_only(text: str) -> Path:
    """Return the path of a folder; raises InvalidInput for an address."""
    if is_collection_address(text):
        raise InvalidInput(
            "backups are restored into folders, and aliases lead to folders; `cbir collection copy` copies a "
            "collection from a folder into PostgreSQL"
        )
    return Path(text)


def check_label(collection: "Collection", key: str) -> None:
    """Raise InvalidInput, with the key that was probably meant, if no image has the label `key`."""
    collection.conditions([f"{key}?"])


def parse_parameters(texts: list[str] | None) -> dict[str, Any]:
    """Parse the values of `Parameter`; raises InvalidInput for one of another form, and for a repeated name."""
    from cbir.rerank.reranker import parse_value

    parameters: dict[str, Any] = {}
    for text in texts or []:
        name, _, value = text.partition("=")
        try:
            number = parse_value(value)
        except ValueError:
            raise InvalidInput(
                f"--parameter {text} is not of the form NAME=NUMBER, for instance P=9"
            ) from None
        if name in parameters:
            raise InvalidInput(f"--parameter {text}: {name} has a value already; name it once")
        parameters[name] = number
    return parameters
