"""A state folder with contents of every kind, for flipped_bits.py."""

from pathlib import Path

import numpy as np

from cbir import settings
from cbir.search.cohorts.missing_images import ProposedImage
from cbir.settings import Settings
from cbir.system.access_rights import Scope
from service.access.audit import AuditLog
from service.access.security import audit_log_place
from service.access.token_stores import TokenStore
from service.features.annotate.reader_study import tables as studies
from service.features.monailabel.segmentation_files import store_segmentation
from service.features.saved.cases import tables as cases
from service.features.saved.cohorts import tables as cohorts
from service.features.saved.messages import CaseSearch, NewCase, NewCohort
from service.features.usage import tables as usage_log
from service.features.usage.replay_log import LoggedSearch
from service.jobs import stored_jobs
from service.state import access_rows, request_counts
from service.state.database import StateDatabase, open_state

IMAGES = [f"{number:032x}" for number in range(6)]
NOW = 1_800_000_000
LINES = 30  # of the audit log


def state_settings(folder: Path) -> Settings:
    """Return the settings of a service whose state is in `folder`."""
    return settings.load(
        state_folder=folder, annotation_folder=folder / "segmentations", state_database=None, audit_log=None
    )


def make_state(folder: Path) -> None:
    """Store something of every kind in a new state folder."""
    active = state_settings(folder)
    database = open_state(active)
    _save_cases(database)
    _save_study(database)
    _save_usage(database)
    access_rows.add_session(
        database, access_rows.StoredSession("ab" * 32, None, "mia", ("ct",), 2 * NOW), 10, 10
    )
    stored_jobs.add_job(database, stored_jobs.NewJob("index", "knees", {"sources": ["/archive"]}), 10)
    stored_jobs.save_worker(database, "worker", {"0123456789abcdef": "the folder /archive"})
    request_counts.add_counts(
        database, {request_counts.CountKey("2026-03-02", "search", "none", "done"): 7}, "2026-01-01"
    )
    access_rows.save_use(database, "1a2b3c4d", NOW)
    access_rows.add_failure(database, "192.0.2.0/24", NOW, 10)
    access_rows.signing_key(database, "logins")
    tokens = TokenStore(folder)
    tokens.create([Scope.search], name="viewer", where=["site=A"])
    tokens.revoke(tokens.create([Scope.admin])[0].token_id)
    _write_audit_log(active)
    for tag in ("original", "final"):
        store_segmentation(active, IMAGES[0], tag, ".nrrd", bytes(range(256)))
    database.drop_old_rows()


def _save_cases(database: StateDatabase) -> None:
    case = NewCase(title="Knee", note="compare", shared=True, search=CaseSearch(image_id=IMAGES[0]))
    cases.add_case(database, "user mia", "knees", case, cases.QueryPicture(bytes(900), IMAGES[1]), "patient")
    cohort = NewCohort(title="Fractures", where=["modality=CR"], relevant=[IMAGES[0]])
    cohorts.add_cohort(database, "user mia", "knees", cohort, {IMAGES[0]: True})
    cohorts.propose(database, 1, [ProposedImage(image, 0.1234567890123456, True) for image in IMAGES[1:4]])
    cohorts.judge(database, 1, {IMAGES[1]: False})


def _save_study(database: StateDatabase) -> None:
    study = studies.ReaderStudy("first", "knees", "none", "auto", 2, 1, 1, True, 7, bytes(range(32)))
    item = studies.StudyItem(1, IMAGES[0], tuple(IMAGES[1:3]), tuple(IMAGES[3:5]))
    studies.add_study(database, study, [item])
    reader = studies.claim_reader(database, study, "user mia")
    answer = studies.ReaderAnswer(reader, 1, 4, 2, -1, True, {IMAGES[1]: True}, "clear", 12.345678901234567)
    studies.set_answer(database, study.name, answer)


def _save_usage(database: StateDatabase) -> None:
    vector = np.linspace(0, 1, 16, dtype=np.float32)
    search = LoggedSearch(
        "search", NOW * 2, "knees", "huang2012", "none", 4, "image", tuple(IMAGES), {}, IMAGES[0], vector
    )
    usage_log.add_search(database, search, (10_000, 10))
    usage_log.set_event(database, "search", "relevant", IMAGES[1], 1)


def _write_audit_log(active: Settings) -> None:
    path = audit_log_place(active)
    assert path
    log = AuditLog(path, 4096)  # some rotated files
    for number in range(LINES):
        log.write("1a2b3c4d", "192.0.2.1", "search", IMAGES[: number % 4], 200)
    log.close()
