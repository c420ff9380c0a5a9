"""Erasing a patient outside of the collection: in data that features derived from its images."""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Collection as Ids

from cbir.errors import CbirError, describe_unexpected
from cbir.settings import Settings
from cbir.system.features import Feature, features

Eraser = Callable[[Settings, Sequence[str], Ids[str]], None]


class EraserFailed(CbirError):
    """A feature could not remove a patient, so that nothing counts as erased."""


def erase_elsewhere(settings: Settings, keys: Sequence[str], image_ids: Ids[str]) -> None:
    """Remove a patient from everything that features have stored.

    Call it before the collection forgets which images are the patient's.

    Parameters
    ----------
    settings : Settings
        Its state_folder and state_database must be those of the service.
    keys : sequence of str
        Keys that the patient may have.
    image_ids : collection of str
        Images of the patient.

    Raises
    ------
    FeatureUnusable
        If a feature cannot be imported; then none has erased anything.
    EraserFailed, CbirError
        If a feature fails; repeat the erasure when the reason is gone.
    """
    _run(list(load_erasers()), settings, keys, image_ids)


def erase_deleted(settings: Settings, image_ids: Ids[str]) -> None:
    """Remove what belongs to images that are deleted, such as segmentations; saved cases keep their mention of them.

    Call it before they are: a deletion that is repeated finds no images.
    """
    erasers = [(feature, eraser) for feature, eraser in load_erasers() if feature.erases_deleted]
    _run(erasers, settings, (), image_ids)


def load_erasers() -> Iterator[tuple[Feature, Eraser]]:
    """Yield the features that store data, and their erasers; raises FeatureUnusable."""
    for feature in features():
        if feature.eraser:
            yield feature, feature.load(feature.eraser)


def _run(
    erasers: Sequence[tuple[Feature, Eraser]], settings: Settings, keys: Sequence[str], image_ids: Ids[str]
) -> None:
    for feature, erase in erasers:
        try:
            erase(settings, keys, image_ids)
        except (CbirError, OSError):
            raise
        except Exception as error:  # whose text may name the patient
            raise EraserFailed(
                f"nothing counts as erased: the feature {feature.name} failed ({describe_unexpected(error)}); "
                "repeat the erasure when it works"
            ) from None
