"""The storage service: C-STORE and C-ECHO, answered by an Intake."""

import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pynetdicom import AE, AllStoragePresentationContexts, evt
from pynetdicom.events import Event
from pynetdicom.sop_class import Verification  # type: ignore[attr-defined]

from cbir.errors import InvalidInput
from indexer.dicom.instance import Fate
from indexer.dicom.intake import Intake
from indexer.receive.bounded import PDU_BYTES, Server
from indexer.receive.syntaxes import decodable

NETWORK_SECONDS = 60  # without a word from the peer
ACSE_SECONDS = 30
EXTRA_BYTES = 2**20  # around an object
TITLE = re.compile(
    r"[!-\[\]-~]([ -\[\]-~]{0,14}[!-\[\]-~])?"
)  # VR AE, PS3.5, 6.2: 16 characters, no backslash

# PS3.4, table B.2-1, and PS3.7, annex C. A warning tells the sender that it need not try again.
STATUS = {
    Fate.stored: 0x0000,
    Fate.known: 0x0000,
    Fate.no_image: 0xB006,  # elements discarded
    Fate.left_out: 0xB006,
    Fate.deleted_earlier: 0xB006,
    Fate.unreadable: 0xC000,  # cannot understand
    Fate.full: 0xA700,  # out of resources
    Fate.failed: 0x0110,  # processing failure
}
MISMATCH = 0xA900  # the data set is not of the class, or the instance, that the command says

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Peers:
    """Who may send. called: our AE title. calling: theirs; empty: any. most: associations at a time."""

    called: str
    calling: Sequence[str] = ()
    most: int = 8

    def __post_init__(self) -> None:
        for title in (self.called, *self.calling):
            if not TITLE.fullmatch(title):
                raise InvalidInput(f"{title!r} is no AE title: 1 to 16 printable characters, no backslash")


def serve(intake: Intake, host: str, port: int, peers: Peers) -> Server:
    """Listen; whoever called this runs `serve_forever` of what it returns.

    Raises InvalidInput where the address cannot be listened on.
    """
    entity = AE(peers.called)
    entity.maximum_pdu_size = PDU_BYTES
    entity.maximum_associations = peers.most
    entity.network_timeout, entity.acse_timeout, entity.dimse_timeout = NETWORK_SECONDS, ACSE_SECONDS, None
    entity.require_called_aet = True
    entity.require_calling_aet = list(peers.calling)
    for context in AllStoragePresentationContexts:
        entity.add_supported_context(str(context.abstract_syntax), list(decodable()))
    entity.add_supported_context(Verification)
    try:
        made = entity.make_server(
            (host, port),
            evt_handlers=[
                (evt.EVT_C_STORE, _store, [intake]),
                (evt.EVT_RELEASED, _ended, ["ended"]),
                (evt.EVT_ABORTED, _ended, ["was broken off"]),
                (evt.EVT_CONN_CLOSE, _ended, ["was cut"]),
            ],
            server_class=Server,
            most_bytes=intake.limits.bytes + EXTRA_BYTES,
        )
    except (OSError, OverflowError) as error:
        raise InvalidInput(f"cannot listen on {host}, port {port}: {error}") from error
    assert isinstance(made, Server)
    return made


def _store(event: Event, intake: Intake) -> int:
    """What is answered to a C-STORE request; success only once the instance is on the disk."""
    try:
        status, fate = _stored(event, intake)
    except Exception as error:  # pynetdicom would log its text, which may quote the object
        log.warning("an instance could not be processed: %s", type(error).__name__)
        status, fate = STATUS[Fate.failed], Fate.failed
    socket = event.assoc.dul.socket
    if socket is not None:
        setattr(socket, "received", 0)  # noqa: B010
    counts: Counter[Fate] = event.assoc.__dict__.setdefault("cbir_counts", Counter())
    counts[fate] += 1
    return status


def _stored(event: Event, intake: Intake) -> tuple[int, Fate]:
    uid = getattr(event.request, "AffectedSOPInstanceUID", "")
    outcome = intake.add(event.encoded_dataset(), str(uid))
    if outcome.fate is Fate.unreadable and "another SOP Instance UID" in outcome.reason:
        return MISMATCH, outcome.fate
    if STATUS[outcome.fate] & 0xF000 in (0xA000, 0xC000) or outcome.fate is Fate.failed:
        log.warning("an instance was refused: %s", outcome.reason)
    return STATUS[outcome.fate], outcome.fate


def _ended(event: Event, how: str) -> None:
    """One line an association: who, how many, never what."""
    counts = event.assoc.__dict__.pop("cbir_counts", None)
    if counts:
        title = re.sub(r"[^ -~]", "?", str(event.assoc.requestor.ae_title))[:16].strip()
        said = ", ".join(f"{number} {fate.value}" for fate, number in counts.items())
        log.info("an association of %s %s: %s", title, how, said)
