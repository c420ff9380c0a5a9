"""Settings of re-ranking that new collections have and older ones lack, and how to get them."""

from typing import Any

from cbir.rerank.auto import read_choice
from cbir.rerank.eprf import Eprf
from cbir.store import Collection
from cbir.store.base.profile import Profile, settings_of_new


def add_settings_of_new(profile: Profile) -> dict[str, Any]:
    """Return the settings of a profile with those of new collections, where it has none of that name."""
    return settings_of_new(profile) | profile.rerank


def setting_advice(collection: Collection) -> list[str]:
    """Return a line for each kind of settings that an earlier version left in a collection."""
    lines = []
    profile, auto = collection.profile, collection.auto_choice()
    if auto is not None and read_choice(auto, profile.descriptor).images is None:
        lines.append(
            "auto was chosen by an earlier version: the next `cbir index`, or `cbir collection tune`, chooses again"
        )
    new = settings_of_new(profile)
    if new.keys() - profile.rerank.keys():
        listed = " ".join(f"{key}={value:g}" for key, value in new[Eprf.name].items())
        lines.append(
            f"the settings of eprf are those of an earlier version, new collections have {listed}: "
            "`cbir collection tune` stores them"
        )
    return lines
