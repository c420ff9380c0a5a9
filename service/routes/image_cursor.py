"""Cursors of lists of images, which say where the next page begins."""

import base64
import json

from cbir.store.records.image_order import Position
from service.http.problems import Malformed


def check_position(text: str | None) -> str | None:
    """Return the cursor `text` of a list of images; raises Malformed if the service cannot have issued it."""
    parse_position(text)
    return text


def parse_position(text: str | None) -> Position | None:
    """Parse the cursor of a list of images: a number, or base64url of a JSON list of number and label value."""
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 19:
        return Position(int(text))
    try:
        number, value = json.loads(base64.b64decode(text.encode("ascii"), b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        number, value = None, None
    if type(number) is not int or not 0 <= number < 10**18 or not isinstance(value, str) or "\0" in value:
        raise Malformed("cursor: use the field `next` of the previous page")
    return Position(number, value)


def write_position(position: Position) -> str:
    """Return the cursor of a list that continues after `position`."""
    if position.value is None:
        return str(position.number)
    return base64.urlsafe_b64encode(json.dumps([position.number, position.value]).encode()).decode()
