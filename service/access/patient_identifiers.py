"""Patients in requests: keys, and identifiers from administrators alone."""

from collections.abc import Iterable

from flask import request

from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.store.records.records import hash_patient
from service.access.audit import log_fields
from service.access.auth import access_control
from service.access.caller import actor_name, has_admin_rights
from service.http.problems import TooManyRequests
from service.http.request_params import PATIENT_KEY


def check_patient(patient: str | None) -> None:
    """Raise InvalidInput unless `patient` is a key, or the caller may also send identifiers.

    The answer is the same for every identifier, so it tells nothing about the patients of the collection.
    """
    if patient and not PATIENT_KEY.fullmatch(patient) and not has_admin_rights():
        raise InvalidInput(
            "exclude_patient: a patient key is needed (32 hexadecimal digits, the field patient of a result); "
            "identifiers are accepted from the scope admin only"
        )


def patient_key(collection: Collection, patient: str | None) -> str | None:
    """Return the key of the `patient` that a request names by key, or by identifier if its caller may.

    Identifiers are logged, without their value, and limited by the setting `identifiers_per_hour`, so that no one can
    try all of them. Raises InvalidInput and TooManyRequests.
    """
    check_patient(patient)
    if not patient or PATIENT_KEY.fullmatch(patient):
        return patient or None
    return key_of_identifier(collection, patient)


def key_of_identifier(collection: Collection, patient: str) -> str | None:
    """Return the key of the `patient` with an identifier, limited and logged as `patient_key` says."""
    log_fields(identifier=True)
    key = hash_patient(collection.secret, patient)
    wait = access_control().identifiers.seconds_to_wait(_subject(), [key] if key else [])
    if wait:
        raise TooManyRequests(
            f"this caller has sent identifiers of too many patients; use patient keys, or wait {wait} seconds",
            retry_after=wait,
        )
    return key


def limit_new_patients(keys: Iterable[str | None]) -> None:
    """Count the patients of the images that a request adds, by their `keys`; raises TooManyRequests.

    Adding an image hashes the patient's identifier. Without a limit, a caller could try all identifiers.
    """
    if has_admin_rights():
        return
    wait = access_control().new_patients.seconds_to_wait(_subject(), [key for key in keys if key])
    if wait:
        raise TooManyRequests(
            f"images of too many different patients in one hour (patients_per_hour); wait {wait} seconds",
            retry_after=wait,
        )


def _subject() -> str:
    return f"{actor_name()} {request.remote_addr if actor_name() == 'service' else ''}"
