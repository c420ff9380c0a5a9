"""Web addresses that an operator names in the settings: of the archive, of a viewer, of who may frame a page."""

import re
from urllib.parse import SplitResult, quote, urlsplit

PLACES = ("study", "series", "instance", "frame")
PLACE = re.compile(r"\{([^{}]*)\}")
NOT_WRITTEN = re.compile(r"[^!-~]|[<>\"\\]")  # what no address has (RFC 3986)
UID = re.compile(r"(?=.{1,64}\Z)[0-9]+(\.[0-9]+)*")  # PS3.5, 9.1; zeros in front are seen
ORIGIN = re.compile(r"https?://[^/?#@*\s;,'\"]+")


def is_uid(text: str) -> bool:
    """Whether a text that came in a header is a UID, and so no way out of a path."""
    return UID.fullmatch(text) is not None


def validate_http_url(text: str) -> str:
    """An http or https address without a slash at its end; raises ValueError."""
    parts = _split(text)
    if parts.query or parts.fragment:
        raise ValueError(
            f"{text} has a ? or a #; name the part before them, as http://localhost:8042/dicom-web"
        )
    return text.rstrip("/")


def validate_viewer_template(text: str) -> str:
    """An http or https address with {study} in it, and if wanted {series}, {instance}, {frame}; raises ValueError."""
    unknown = [name for name in PLACE.findall(text) if name not in PLACES]
    if unknown or "{" in PLACE.sub("", text) or "}" in PLACE.sub("", text):
        raise ValueError(f"{text}: in braces there may be {', '.join(PLACES)} only")
    if "study" not in PLACE.findall(text):
        raise ValueError(f"{text} says nowhere which study: write {{study}} where its UID belongs")
    if "{" in _split(text).netloc:
        raise ValueError(f"{text}: the host must not depend on the image")
    return text


def fill_template(template: str, **values: str) -> str:
    """The address of a template; values are percent-encoded (RFC 3986, 2.1)."""
    return PLACE.sub(lambda found: quote(values[found.group(1)], safe=""), template)


def validate_origin(text: str) -> str:
    """An origin (RFC 6454), as https://viewer.example.org; raises ValueError."""
    if not ORIGIN.fullmatch(text):
        raise ValueError(f"{text} is no origin; write it as https://viewer.example.org, with nothing behind")
    _split(text)
    return text.lower()


def _split(text: str) -> SplitResult:
    parts = urlsplit(text)
    try:
        port_is_sound = parts.port is None or parts.port > 0
    except ValueError:
        port_is_sound = False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_sound:
        raise ValueError(f"{text} is no http or https address")
    if parts.username is not None or parts.password is not None:
        raise ValueError("credentials do not belong into an address, which is shown to clients")
    if NOT_WRITTEN.search(text):
        raise ValueError(f"{text!r} has a character that no address has")
    return parts
