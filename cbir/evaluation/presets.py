"""Published protocols as options of `cbir evaluate run`."""

from enum import StrEnum
from typing import Any


class Preset(StrEnum):
    """Names of the protocols."""

    p_at_k = "p-at-k"
    medmnist = "medmnist"


_TRAINING_IMAGES_ANSWER = {"relevance": "label", "where": ["split=train"], "rerank": "none"}

# Options that a preset sets; options of the command line and of a configuration file come first.
PRESETS: dict[Preset, dict[str, Any]] = {
    # Denner et al., arXiv 2403.06567: validation and test images ask, precision over min(k, images of the class)
    Preset.p_at_k: _TRAINING_IMAGES_ANSWER
    | {
        "measures": "cappedP@1 cappedP@3 cappedP@5 cappedP@10",
        "queries_where": ["split!=train"],
        "depth": 10,
    },
    # Mahbod et al., arXiv 2409.09430
    Preset.medmnist: _TRAINING_IMAGES_ANSWER
    | {"measures": "mAP@5 mMV@5 ACC@1 ACC@3 ACC@5", "queries_where": ["split=test"], "depth": 5},
}
