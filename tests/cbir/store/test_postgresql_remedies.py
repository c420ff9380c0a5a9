"""Remedies for the reasons that a real server gives are tried in tests/e2e; here the words of the others."""

import pytest

from cbir.store.postgresql.postgresql_database import OTHERWISE, may_pass, remedy_for


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
        ("SSL connection has been closed unexpectedly", OTHERWISE),
        ("SSL SYSCALL error: EOF detected", OTHERWISE),
        ("sorry, too many clients already", "max_connections"),
        ("connection timeout expired", "start the server"),
        ("something else", OTHERWISE),
    ],
)
def test_remedies(reason: str, remedy: str) -> None:
    assert remedy in remedy_for(reason)


@pytest.mark.parametrize(
    ("reason", "passes"),
    [
        ("connection refused; start the server", True),
        ("the database system is starting up", True),
        ("SSL connection has been closed unexpectedly; try again", True),
        ("SSL SYSCALL error: EOF detected", True),
        ("server does not support SSL, but SSL was required", False),
        ("SSL error: certificate verify failed", False),
        ('password authentication failed for user "cbir"', False),
    ],
)
def test_what_waiting_helps_against(reason: str, passes: bool) -> None:
    address = "postgresql+psycopg://cbir@db/hospital?sslrootcert=/etc/certificate.pem"
    assert may_pass(f"the collection {address} cannot be used: {reason}") == passes
