"""Tickets: signed ids of images, with which a program that sends no token fetches one image for some minutes."""

from flask import current_app
from itsdangerous import BadSignature, TimestampSigner

from service.state.database import EXTENSION as STATE
from service.state.database import StateDatabase
from service.state.login_rows import signing_key

TICKET_SECONDS = 600
KEY_EXTENSION = "cbir-ticket-key"


def make_ticket(image_id: str, token_id: str) -> str:
    """Return an id of the image that shows, until it expires, what the token with `token_id` may see of it."""
    return _signer().sign(f"{image_id}.{token_id}").decode()


def ticket_image(text: str) -> str:
    """Return the id of the image in a ticket, or in an id without one."""
    return text.partition(".")[0]


def ticket_token(text: str) -> str | None:
    """Return the id of the token that got a ticket; None if `text` is none, or has expired."""
    try:
        return _signer().unsign(text, max_age=TICKET_SECONDS).decode().partition(".")[2]
    except (BadSignature, UnicodeError):
        return None


def _signer() -> TimestampSigner:
    key = current_app.extensions.get(KEY_EXTENSION)
    if key is None:
        database: StateDatabase = current_app.extensions[STATE]
        key = current_app.extensions[KEY_EXTENSION] = signing_key(database, "image-tickets")
    return TimestampSigner(key, salt="image-ticket")
