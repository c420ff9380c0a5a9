"""Removes deleted images from the usage log."""

import logging
from collections.abc import Collection as Ids
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from cbir.errors import CbirError
from cbir.settings import Settings
from cbir.store import Collection
from service.features.usage import tables as usage_log
from service.features.usage.replay_log import LoggedSearch
from service.state.database import StateDatabase, open_state, state_database

if TYPE_CHECKING:
    from flask import Response

DELETING = ("delete", "erase")  # actions of access rules
DELETED = ("deleted", "erased")  # changes in the history of a collection
CHANGES = 100  # of the history that are looked at

log = logging.getLogger(__name__)


def follow_deletions(response: "Response") -> "Response":
    """Remove what a request has deleted, and when events come what other programs have deleted meanwhile."""
    from flask import request  # of the extra serve, which erasing a patient does without

    from service.access import scopes
    from service.collections.app_state import current_state

    state, rule = current_state(), scopes.rule_of_request(request)
    deletes = rule is not None and rule.action in DELETING
    if (
        not (deletes or request.endpoint == "usage.post_usage")
        or response.status_code >= HTTPStatus.BAD_REQUEST
    ):
        return response
    database = state_database()
    if not (state.settings.usage_log or database.exists()):
        return response
    try:
        for name in usage_log.logged_collections(database):
            if handle := state.collections.get(name):
                forget_deleted(database, name, handle.whole_searcher().collection)
    except CbirError as error:  # the request itself has succeeded
        log.warning("deleted images may still be in the usage log: %s", error)
    return response


def forget_deleted(database: StateDatabase, name: str, collection: Collection) -> None:
    """Remove the images from the log that the collection has deleted since the last call.

    Parameters
    ----------
    database : StateDatabase
    name : str
        Name of the collection in the log.
    collection : Collection
        All of it, not a limited view.
    """
    changes = collection.history(limit=CHANGES)
    newest = changes[0].change if changes else 0
    last = usage_log.last_deletion(database, name)
    if last == newest:
        return
    unread = [change for change in changes if last is None or change.change > last]
    many = last is None or last > newest or len(unread) == CHANGES
    logged = set()
    if many or any(change.what in DELETED for change in unread):
        logged = usage_log.logged_images(database, name)
    missing = logged - set(collection.image_ids().values()) if logged else logged
    usage_log.forget_images(database, missing, name)
    usage_log.set_last_deletion(database, name, newest)


def forget_missing(database: StateDatabase, search: LoggedSearch) -> None:
    """Remove the images of a new search from the log that were deleted before its page reported it."""
    from service.collections.app_state import current_state

    handle = current_state().collections.get(search.collection)
    images = {*search.answers, *([search.query_image] if search.query_image else [])}
    stored = handle.whole_searcher().collection.records_by_id(images) if handle else {}
    usage_log.forget_images(database, images - stored.keys(), search.collection)


def erase_usage(settings: Settings, keys: Sequence[str], image_ids: Ids[str]) -> None:
    """Remove the images of a patient who is erased from the log of every collection.

    Parameters
    ----------
    settings : Settings
    keys : sequence of str
        Keys that the patient may have; the log has none.
    image_ids : collection of str
        Ids of the images.
    """
    database = open_state(settings)
    if database.exists():
        usage_log.forget_images(database, image_ids)
        database.drop_old_rows()
