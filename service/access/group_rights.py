"""Rights of the hospital's users by their groups."""

from collections.abc import Iterable, Mapping

from cbir.errors import InvalidInput
from cbir.system.access_rights import Rights

MAX_NAME_LENGTH = 100  # characters


def rights_of_groups(rights: Mapping[str, Rights], groups: Iterable[str]) -> Rights | None:
    """Return the rights of the first group in `rights` that is one of a user's `groups`; None if there is none."""
    memberships = set(groups)
    return next((granted for group, granted in rights.items() if group in memberships), None)


def valid_user_name(name: str) -> bool:
    """Return True if `name` can be written to logs: 1 to 100 printable characters."""
    return 0 < len(name) <= MAX_NAME_LENGTH and name.isprintable()


def check_rights(rights: Rights, name: str) -> None:
    """Raise InvalidInput if the label filter of `rights` cannot be used; `name` says where they come from."""
    if not rights.where:
        return
    from cbir.store.limited_collection import check_conditions
    from cbir.store.records.filter_conditions import parse_filter  # slow to import

    try:
        check_conditions([parse_filter(text) for text in rights.where])
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from error
