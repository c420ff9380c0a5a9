"""Chain of the audit log: each line carries a keyed hash of itself and of the line before it."""

import hashlib
import hmac
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MAC_BYTES = 16
MAC_AT_END = re.compile(rb', "mac": "([0-9a-f]{32})"\}')
MAC_LENGTH = len(b', "mac": ""}') + 2 * MAC_BYTES


class ChainHead(NamedTuple):
    """Last line of a chain. number: its place in the chain, from 1; 0 for an empty chain."""

    number: int
    mac: str

    def __str__(self) -> str:
        return f"{self.number}:{self.mac}"


class LogLine(NamedTuple):
    """Line of a log file, with its newline. number: in the file, from 1."""

    file: str
    number: int
    content: bytes

    @property
    def place(self) -> str:
        """Name of the file and number of the line, for messages."""
        return f"{self.file}:{self.number}"


def start_chain(key: bytes, earlier: Iterable[bytes]) -> ChainHead:
    """Return the head of an empty chain that follows the bytes `earlier`, which no chain protects."""
    digest = hmac.new(key, b"start ", hashlib.sha256)
    for part in earlier:
        digest.update(part)
    return ChainHead(0, digest.hexdigest()[: 2 * MAC_BYTES])


def chain_line(key: bytes, head: ChainHead, fields: dict[str, Any]) -> tuple[bytes, ChainHead]:
    """Return the line that appends `fields` to the chain that ends in `head`, and the new head."""
    number = head.number + 1
    body = json.dumps({**fields, "n": number, "prev": head.mac})[:-1].encode()
    mac = _mac(key, body)
    return body + f', "mac": "{mac}"}}\n'.encode(), ChainHead(number, mac)


def _mac(key: bytes, body: bytes) -> str:
    return hmac.new(key, body, hashlib.sha256).hexdigest()[: 2 * MAC_BYTES]


def read_head(key: bytes, line: bytes) -> ChainHead | None:
    """Return the head of a chain that ends in `line`, without its newline; None if the line is not authentic."""
    match = MAC_AT_END.fullmatch(line[-MAC_LENGTH:])
    if match is None or not hmac.compare_digest(_mac(key, line[:-MAC_LENGTH]), match[1].decode()):
        return None
    return ChainHead(int(json.loads(line)["n"]), match[1].decode())


@dataclass
class ChainReport:
    """Result of a check. faults: changed, removed, added and reordered lines; notes: what cannot be checked."""

    lines: int = 0
    first: int | None = None
    head: ChainHead | None = None
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def verify_chain(
    key: bytes,
    lines: Iterable[LogLine],
    head: ChainHead | None,
    first: int = 1,
    known: Iterable[ChainHead] = (),
) -> ChainReport:
    """Check every line of an audit log.

    Parameters
    ----------
    key : bytes
        Key of the chain.
    lines : iterable of LogLine
        All lines in order.
    head : ChainHead or None
        Last line as the service has noted it beside the log; None if that is missing.
    first : int
        Number of the first line; larger than 1 if the lines before it have been archived.
    known : iterable of ChainHead
        Heads that were noted elsewhere; their lines must be there unchanged.

    Returns
    -------
    ChainReport
    """
    report, missing = ChainReport(), {noted.number: noted.mac for noted in known}
    previous: ChainHead | None
    start = hmac.new(key, b"start ", hashlib.sha256)
    previous, file = None, ""
    for line in lines:
        if previous is None and line.file != file:
            file, start = line.file, hmac.new(key, b"start ", hashlib.sha256)
        current, place = _parse(line.content), line.place
        if current is None:
            _report_unchained(report, line, previous is not None)
            if previous is None:
                start.update(line.content)
            continue
        content, number, linked = current
        if previous is None:
            report.first = number
            if number != first:
                report.faults.append(f"{place}: the log begins at line {number}, not at line {first}")
            previous = ChainHead(number - 1, start.hexdigest()[: 2 * MAC_BYTES] if number == 1 else linked)
        authentic = read_head(key, content)
        if authentic is None:
            report.faults.append(f"{place}: line {number} was changed")
        elif number != previous.number + 1:
            report.faults.append(f"{place}: line {number} follows line {previous.number}")
        elif linked != previous.mac:
            report.faults.append(f"{place}: line {number} does not continue the line before it")
        previous = authentic or ChainHead(number, content[-2 - 2 * MAC_BYTES : -2].decode())
        if missing.get(number) == previous.mac:
            del missing[number]
        report.lines += 1
    report.head = previous
    report.faults += [f"the noted line {number} is missing or was changed" for number in sorted(missing)]
    _check_end(report, head)
    return report


def _parse(line: bytes) -> tuple[bytes, int, str] | None:
    """Return content, number and link of a line of the chain; None for any other line."""
    content = line.removesuffix(b"\n")
    if not line.endswith(b"\n") or not MAC_AT_END.fullmatch(content[-MAC_LENGTH:]):
        return None
    try:
        fields = json.loads(content)
        return content, int(fields["n"]), str(fields["prev"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _report_unchained(report: ChainReport, line: LogLine, in_chain: bool) -> None:
    if not in_chain:
        if not report.notes:
            report.notes.append(f"{line.place}: lines of an earlier version, which had no chain")
        return
    try:
        json.loads(line.content)
    except (ValueError, RecursionError):
        report.notes.append(f"{line.place}: a line that was cut short, by a full disk for example")
    else:
        report.faults.append(f"{line.place}: a line that is not part of the chain")


def _check_end(report: ChainReport, head: ChainHead | None) -> None:
    last = report.head or ChainHead(0, "")
    if head is None:
        report.faults.append("the note of the last line is missing, so lines may be missing at the end")
    elif last.number < head.number:
        report.faults.append(f"lines {last.number + 1} to {head.number} are missing at the end")
    elif last.number == head.number and head.number and last.mac != head.mac:
        report.faults.append(f"line {last.number}, the last one, is not the one that the service wrote")
    elif last.number > head.number + 1:  # one more: the machine stopped between the line and its note
        report.faults.append(f"lines {head.number + 2} to {last.number} were not noted by the service")
