"""Check that no line of an audit log's chain was changed or removed."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from service.access.audit_chain import (
    MAC_AT_END,
    MAC_LENGTH,
    RESTARTED,
    ChainHead,
    read_head,
    start_chain,
)

LINE_START = b'{"time": "'  # of every line that the service writes


@dataclass
class ChainReport:
    """Result of a check. faults: changed, removed, added and reordered lines; notes: what cannot be checked."""

    lines: int = 0
    first: int | None = None
    head: ChainHead | None = None
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class LogLine(NamedTuple):
    """Line of a log file, with its newline. number: in the file, from 1."""

    file: str
    number: int
    content: bytes

    @property
    def file_and_line(self) -> str:
        """Name of the file and number of the line, for messages."""
        return f"{self.file}:{self.number}"


def verify_chain(
    key: bytes,
    lines: Iterable[LogLine],
    head: ChainHead | None,
    first: int = 1,
    known: Iterable[ChainHead] = (),
    newest: str = "",
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
    newest : str
        Name of the file that is written to; the first line of the chain may not be in it yet.

    Returns
    -------
    ChainReport
    """
    check = _ChainCheck(key, first, known, head)
    for line in lines:
        check.read(line)
    return check.finish(newest)


class _ChainCheck:
    def __init__(
        self,
        key: bytes,
        first: int,
        known: Iterable[ChainHead],
        head: ChainHead | None,
    ) -> None:
        self.report = ChainReport()
        self._key, self._first, self._head = key, first, head
        self._missing = {noted.number: noted.mac for noted in known}
        self._previous: ChainHead | None = None
        self._chained_file = ""  # of the last line of the chain
        self._unchained = ""  # file that has lines, but none of the chain so far

    def read(self, line: LogLine) -> None:
        """Check the next line."""
        current = _parse(line.content)
        self._check_file(line, current is not None)
        if current is None:
            _report_unchained(self.report, line, self._previous is None)
            return
        self._previous = self._check_line(line, current)
        if self._missing.get(current.number) == self._previous.mac:
            del self._missing[current.number]
        self.report.lines += 1

    def _check_file(self, line: LogLine, chained: bool) -> None:
        """Report a file with lines, but none of the chain, when the next file begins: rotation makes none."""
        if self._unchained not in ("", line.file):
            self._report_file()
        if chained:
            self._unchained, self._chained_file = "", line.file
        elif line.file != self._chained_file:
            self._unchained = line.file

    def _report_file(self) -> None:
        self.report.faults.append(f"{self._unchained}: has no line of the chain; move it elsewhere")

    def _check_line(self, line: LogLine, current: "_ChainedLine") -> ChainHead:
        """Compare a line of the chain with the one before it; return the new head."""
        number, faults, file_and_line = current.number, self.report.faults, line.file_and_line
        previous = self._previous or self._begin(line, current)
        authentic = read_head(self._key, current.content)
        if authentic is None:
            faults.append(f"{file_and_line}: line {number} was changed")
        elif number != previous.number + 1:
            faults.append(f"{file_and_line}: line {number} follows line {previous.number}")
        elif current.previous_mac != previous.mac:
            faults.append(f"{file_and_line}: line {number} does not continue the line before it")
        elif current.action == RESTARTED:
            faults.append(
                f"{file_and_line}: the note of the last line was missing, so lines before this one may be too"
            )
        elif self._head and number == self._head.number + 1 and current.previous_mac != self._head.mac:
            faults.append(f"line {number - 1} is not the one that the service noted as the last one")
        return authentic or ChainHead(number, current.mac)

    def _begin(self, line: LogLine, current: "_ChainedLine") -> ChainHead:
        """Return what the first line of the chain should follow."""
        file_and_line = line.file_and_line
        self.report.first = current.number
        if current.number != self._first:
            self.report.faults.append(
                f"{file_and_line}: the log begins at line {current.number}, not at line {self._first}"
            )
        start = ChainHead(current.number - 1, current.previous_mac)
        if not start.number and start != start_chain(self._key):
            self.report.faults.append(f"{file_and_line}: line 1 is not the first of this chain")
        return start

    def finish(self, newest: str) -> ChainReport:
        """Compare the end with the noted head, and return the report. newest: see `verify_chain`."""
        head = self._head
        if self._unchained not in ("", newest):
            self._report_file()
        if self._previous is None and head is not None and not head.number and head != start_chain(self._key):
            self.report.faults.append("the note of the last line is not that of a log without lines")
        self.report.head = self._previous
        self.report.faults += [
            f"the noted line {number} is missing or was changed" for number in sorted(self._missing)
        ]
        _check_end(self.report, head)
        return self.report


class _ChainedLine(NamedTuple):
    content: bytes  # without the newline
    number: int
    previous_mac: str
    mac: str
    action: str


def _parse(line: bytes) -> _ChainedLine | None:
    """Return a line of the chain; None for any other line."""
    content = line.removesuffix(b"\n")
    mac = MAC_AT_END.fullmatch(content[-MAC_LENGTH:])
    if mac is None or not line.endswith(b"\n"):
        return None
    try:
        fields = json.loads(content)
        number, previous = int(fields["n"]), str(fields["prev"])
        return _ChainedLine(content, number, previous, mac[1].decode(), str(fields.get("action")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _report_unchained(report: ChainReport, line: LogLine, before_chain: bool) -> None:
    """Report a line without a place in the chain; before_chain: no line of the chain is before it."""
    if not before_chain and _is_cut_short(line.content):
        report.notes.append(f"{line.file_and_line}: a line that was cut short, by a full disk for example")
    else:
        report.faults.append(f"{line.file_and_line}: a line that is not part of the chain")


def _is_cut_short(content: bytes) -> bool:
    """Return whether a line is the beginning of one of the service's, or what a power cut left behind zeros."""
    text = content.strip(b"\0\n")
    if not content.startswith(b"\0") and not text.startswith(LINE_START[: len(text)]):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False


def _check_end(report: ChainReport, head: ChainHead | None) -> None:
    last = report.head or ChainHead(0, "")
    if head is None:
        report.faults.append("the note of the last line is missing, so lines may be missing at the end")
    elif last.number < head.number:
        report.faults.append(f"lines {last.number + 1} to {head.number} are missing at the end")
    elif last.number == head.number and head.number and last.mac != head.mac:
        report.faults.append(f"line {last.number}, the last one, is not the one that the service wrote")
    elif report.first is not None and head.number < report.first - 1:
        report.faults.append(f"the note of the last line names line {head.number}, which is before the log")
    elif last.number > head.number + 1:  # one more: the machine stopped between the line and its note
        report.notes.append(
            f"lines {head.number + 1} to {last.number} were not noted, as after a power failure"
        )
