"""Collections of a worker, and folders that it may index."""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from cbir.settings import Settings
from cbir.store.collection_address import is_alias
from service.jobs.job_claims import JobCandidate
from service.jobs.job_work import JobWork, can_read, folder_place, job_kinds

LockFolder = Callable[[str, Path], AbstractContextManager[None]]  # raises CollectionBusy


class WorkerPlace:
    """Collections and folders of a worker.

    Parameters
    ----------
    collections : mapping of str to Path
        Folder or alias of each collection, by its name.
    settings : Settings
        Settings of the worker.
    lock : callable, optional
        Called with the name and folder of a collection; keeps this process from writing to it, or raises
        CollectionBusy.
    """

    def __init__(
        self,
        collections: Mapping[str, Path],
        settings: Settings,
        lock: LockFolder = lambda name, folder: nullcontext(),
    ) -> None:
        job_kinds()  # raises at start if a feature cannot be used
        self._collections = collections
        self._settings = settings
        self._lock = lock

    def obstacle(self, job: JobCandidate) -> str | None:
        """Return what is missing here to run a job, without names of folders; None if nothing is."""
        if not can_read(job.kind, job.request):
            return f"a worker of the version of cbir that accepted this job of kind {job.kind}"
        if self._folder(job) is None:
            return f"a worker with the collection {job.collection}, and the same folder or database of it"
        if missing := job_kinds()[job.kind].obstacle():
            return missing
        paths = [*job.request.get("sources", ()), *filter(None, [job.request.get("labels")])]
        roots = [os.path.realpath(root) for root in self._settings.index_roots]
        # As text: where links lead is checked when the job runs.
        if not all(any(Path(path).is_relative_to(root) for root in roots) for path in paths):
            return "a worker that has the folder of the job below its setting index_roots"
        return None

    def work(self, job: JobCandidate) -> JobWork:
        """Return what the process of a job without an obstacle does."""
        folder = self._folder(job)
        assert folder is not None
        return job_kinds()[job.kind].work(job.request, folder, self._settings)

    def lock(self, job: JobCandidate) -> AbstractContextManager[None]:
        """Keep requests of this process from writing while an indexing job does; raises CollectionBusy."""
        folder = self._folder(job)
        if folder is None or job.kind != "index" or job.lane is None:
            return nullcontext()
        return self._lock(job.collection, folder)

    def _folder(self, job: JobCandidate) -> Path | None:
        """Return the folder of the job's collection, None if it is not here."""
        path = self._collections.get(job.collection)
        if path is None:
            return None
        if is_alias(path):  # which may have been switched since the request
            path = path.parent.resolve() / Path(job.request["folder_name"]).name
        if job.place is not None and folder_place(path) != job.place:
            return None
        return path
