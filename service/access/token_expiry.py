"""Expiry of a token as people write it."""

import re
from datetime import UTC, datetime, time, timedelta

from cbir.errors import InvalidInput

UNITS = {"h": "hours", "d": "days", "w": "weeks"}
NEVER = "never"
MAX_DAYS = 36_525


def parse_expiry(text: str, now: datetime) -> datetime | None:
    """Return the expiry of a token created at `now`, None for never.

    `text` is a span such as 12h, 90d or 4w, a day such as 2030-12-31 (until its end, UTC), or never. Raises
    InvalidInput for any other text.
    """
    if text == NEVER:
        return None
    span = re.fullmatch(r"([0-9]{1,5})([hdw])", text)
    try:
        if span:
            end = now + timedelta(**{UNITS[span[2]]: int(span[1])})
        else:
            end = datetime.combine(datetime.strptime(text, "%Y-%m-%d").date(), time.max, UTC)
    except ValueError as error:
        raise InvalidInput(
            f"--expires {text!r}: expected a span like 12h, 90d or 4w, a day like 2030-12-31, or never"
        ) from error
    if end > now + timedelta(days=MAX_DAYS):
        raise InvalidInput(f"--expires {text!r} is more than a hundred years away; use never")
    return end.replace(microsecond=0)
