"""Result of the check of an audit log."""

from dataclasses import dataclass, field

from service.access.audit_chain import ChainHead


@dataclass
class ChainReport:
    """Result of a check. faults: changed, removed, added and reordered lines; notes: what cannot be checked."""

    lines: int = 0
    first: int | None = None
    head: ChainHead | None = None
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
