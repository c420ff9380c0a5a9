"""Reading the audit log in the state database: check of its chain, its last line, export."""

import hmac
from collections.abc import Iterator
from pathlib import Path

from cbir.errors import InvalidInput
from service.access.audit_chain import ChainHead
from service.access.audit_key import read_key
from service.access.chain_check import LogLine, verify_chain
from service.access.chain_report import ChainReport
from service.access.shared_audit import key_check, mac_of_removed, read_stored_chain
from service.state.audit_lines import lines, read_audit_lines, read_chain
from service.state.database import StateDatabase


class SharedAuditLines:
    """Lines of the audit log in the state database.

    Parameters
    ----------
    database : StateDatabase
        Database of the service's state.
    key_file : Path
        File with the key of the chain.
    """

    def __init__(self, database: StateDatabase, key_file: Path) -> None:
        self._database = database
        self._key_file = key_file

    def exists(self) -> bool:
        """Return whether a service has begun the log."""
        with self._database.reading() as connection:
            return read_chain(connection) is not None

    def head(self) -> ChainHead:
        """Return the last line as the services have noted it; raises InvalidInput without a log."""
        with self._database.reading() as connection:
            state = read_stored_chain(connection)
        return ChainHead(state.number, state.mac)

    def since(self, seconds: int) -> Iterator[str]:
        """Yield the lines since a time in seconds since 1970, without newlines, as a file has them."""
        with self._database.reading() as connection:
            for _, line in read_audit_lines(connection, seconds):
                yield line

    def verify(self, first: int = 1, known: tuple[ChainHead, ...] = ()) -> ChainReport:
        """Check all lines, as of one moment.

        Parameters
        ----------
        first : int
            Number of the first line; those that services have removed for their age need not be named.
        known : tuple of ChainHead
            Heads that were noted elsewhere; those of removed lines are not looked for.

        Raises
        ------
        InvalidInput
            If there is no log, or its key cannot be read.
        """
        try:
            key = read_key(self._key_file)
        except OSError as error:
            raise InvalidInput(f"audit_key_file {self._key_file} cannot be read: {error.strerror}") from error
        with self._database.reading() as connection:
            state = read_stored_chain(connection)
            if not hmac.compare_digest(state.key_check, key_check(key)):
                raise InvalidInput(f"{self._key_file} is not the key of the audit log in state_database")
            authentic = hmac.compare_digest(state.removed_mac, mac_of_removed(key, state.removed))
            begin = max(first, state.removed + 1) if authentic else first
            stored = (
                LogLine(lines.name, number, line.encode() + b"\n")
                for number, line in read_audit_lines(connection)
            )
            later = [head for head in known if head.number >= begin]
            report = verify_chain(key, stored, ChainHead(state.number, state.mac), begin, later)
        if not authentic:
            report.faults.append(
                "the note of removed lines was changed, so lines may be missing at the beginning"
            )
        return report
