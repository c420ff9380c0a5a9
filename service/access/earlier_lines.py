"""Lines before an audit log's chain, which an earlier version of cbir wrote without one."""

from collections.abc import Collection

from service.access.audit_chain import ChainHead, begin_digest, start_head
from service.access.chain_report import ChainReport


class EarlierLines:
    """Lines that come before the first one of a chain.

    Parameters
    ----------
    key : bytes
        Key of the chain.
    trusted : collection of str
        Names of files that the reader knows to be of an earlier version.
    """

    def __init__(self, key: bytes, trusted: Collection[str]) -> None:
        self._key, self._trusted = key, trusted
        self._all = begin_digest(key)
        self._file, self._file_digest = "", begin_digest(key)
        self._files: list[str] = []

    def read(self, file: str, content: bytes) -> None:
        """Take the next line."""
        if file != self._file:
            self._files.append(file)
            self._file, self._file_digest = file, begin_digest(self._key)
        for digest in (self._all, self._file_digest):
            digest.update(content if content.endswith(b"\n") else content + b"\n")

    def check(self, report: ChainReport, start: ChainHead, file: str | None) -> None:
        """Add to `report` which of the lines are covered by the chain that follows `start`, and which are not.

        Parameters
        ----------
        report : ChainReport
        start : ChainHead
            What the first line of the chain follows; its number is 0 unless older files were archived.
        file : str or None
            File with the first line of the chain; None if there is none yet.
        """
        covered = self._covered(report, start, file)
        if covered:
            report.notes.append(f"{', '.join(covered)}: lines of an earlier version, which the chain covers")
        for name in self._files:
            if name in covered:
                continue
            if name in self._trusted:
                report.notes.append(
                    f"{name}: lines that nothing protects, named as those of an earlier version"
                )
            else:
                report.faults.append(
                    f"{name}: lines before the chain that it does not cover; if an earlier version of cbir wrote "
                    f"them, name the file: --earlier {name}"
                )

    def _covered(self, report: ChainReport, start: ChainHead, file: str | None) -> list[str]:
        if start.number:
            return []
        if start.mac == start_head(self._all).mac:
            return self._files
        # Chains that version 1.0 began cover the lines before them in their own file only.
        in_file = self._file_digest if file in (None, self._file) else begin_digest(self._key)
        if start.mac == start_head(in_file).mac:
            return [self._file] if self._files and file in (None, self._file) else []
        where = f"{file}: line 1" if file else "the chain"
        report.faults.append(f"{where} does not continue what was before it, which was changed or removed")
        return []
