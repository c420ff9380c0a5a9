"""Remedies for the reasons that a real server gives are tried in tests/e2e; here the words of the others."""

import pytest

from cbir.store.postgresql_remedies import OTHERWISE, remedy_for


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ('FATAL:  password authentication failed for user "cbir"', "collection_password_file"),
        ("fe_sendauth: no password supplied", "collection_password_file"),
        ('FATAL:  database "hospital" does not exist', "create the database"),
        ('FATAL:  role "cbir" does not exist', "create the role"),
        ('permission denied for schema "chest"', "the rights"),
        ("no pg_hba.conf entry for host", "pg_hba.conf"),
        ("could not translate: failed to resolve host 'db'", "correct the host"),
        ("SSL error: certificate verify failed", "sslrootcert"),
        ("server does not support SSL, but SSL was required", "sslmode"),
        ("sorry, too many clients already", "max_connections"),
        ("connection timeout expired", "start the server"),
        ("something else", OTHERWISE),
    ],
)
def test_remedies(reason: str, remedy: str) -> None:
    assert remedy in remedy_for(reason)
