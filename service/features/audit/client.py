"""Client methods for the audit of a collection."""

from collections.abc import Sequence

from service.client.connection import ServiceConnection
from service.client.messages import JobInfo
from service.features.audit.checks.audit_messages import AuditState


class AuditMethods(ServiceConnection):
    """Mixin with the methods of `service.client.Client` for the audit of a collection."""

    def audit(self) -> AuditState:
        """Return the latest audit of the collection; `state` says whether there is one, or a job makes one."""
        return self._fetch(AuditState, "GET", "/v1/audit")

    def start_audit(
        self,
        label: str | None = None,
        split: str | None = None,
        source: str | None = None,
        groups: Sequence[str] = (),
    ) -> JobInfo:
        """Start an audit of the collection and return its job.

        Parameters
        ----------
        label : str, optional
            Label whose errors are looked for.
        split : str, optional
            Label that names the part of a split, such as train and test.
        source : str, optional
            Label that names where an image came from; `source`, or the folder of the file, by default.
        groups : sequence of str
            Labels whose values are compared in retrieval quality, besides sex, age and scanner.
        """
        body = {"label": label, "split": split, "source": source, "groups": list(groups)}
        return self._fetch(JobInfo, "POST", "/v1/audit", json=body)
