"""Profile of new collections, and how a collection with another profile gets it."""

from pathlib import Path
from typing import TYPE_CHECKING

from cbir.errors import CbirError, InvalidInput

if TYPE_CHECKING:
    from cbir.store.base.profile import Profile

DEFAULT_PROFILE = "lite0-max"
WITHOUT_NETWORK = "huang2012"  # needs no weights and no onnxruntime


def profile_of_new(name: str | None, weights: dict[str, float] | None = None) -> "Profile":
    """Return the profile of a new collection: `name`, or the default, with factors of its parts.

    Raises InvalidInput for an unknown name or part, and if what the profile needs is missing.
    """
    from cbir.store.base import profile as profiles

    try:
        return profiles.get(name or DEFAULT_PROFILE, weights)
    except InvalidInput as error:
        if name:
            raise
        raise InvalidInput(f"{error}; or choose another profile: --profile {WITHOUT_NETWORK}") from error


def default_profile_advice(profile: "Profile", folder: Path) -> str | None:
    """Return a line that says how to get the profile of new collections; None if a collection needs none.

    Parameters
    ----------
    profile : Profile
        Profile of the collection. One with an encoder or a trained model, or with the default descriptor beside
        others, was chosen and needs no advice.
    folder : Path
        Its folder.
    """
    from cbir import descriptors
    from cbir.store.postgresql.postgresql_address import database_address

    if profile.has_model or profile.is_projected:
        return None
    try:
        default, *_ = descriptors.resolve_descriptor(DEFAULT_PROFILE)
    except CbirError:  # what it needs is not installed
        return None
    if default in profile.descriptor.split("+"):
        return None
    named = (folder.is_dir() and database_address(folder)) or folder
    return (
        f"the profile of {named} is {profile.name}, new collections have {DEFAULT_PROFILE}: "
        f"`cbir collection redescribe NEW --collection {named}` describes the same images with it"
    )
