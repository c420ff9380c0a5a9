"""Remedies for the reasons that PostgreSQL or libpq gives for refusing."""

OTHERWISE = "try again; the log of the server may say more"
# Words of the reason, all of which must occur; English, as libpq's messages are for `LC_MESSAGES=C` and by default.
REMEDIES = (
    (
        ("password authentication failed",),
        "correct the password: the setting collection_password_file, or PGPASSWORD",
    ),
    (
        ("no password supplied",),
        "name a file with the password: the setting collection_password_file, or PGPASSFILE",
    ),
    (("database", "does not exist"), "correct the address, or create the database: docs/postgresql.md"),
    (("role", "does not exist"), "correct the user in the address, or create the role: docs/postgresql.md"),
    (("permission denied",), "give the user the rights on the schema: docs/postgresql.md"),
    (("pg_hba.conf",), "let pg_hba.conf of the server admit this user from this machine"),
    (("resolve host",), "correct the host in the address"),
    (("certificate",), "correct sslmode and sslrootcert in the address"),
    (("SSL", "closed unexpectedly"), OTHERWISE),
    (("SSL SYSCALL",), OTHERWISE),
    (("SSL",), "correct sslmode in the address"),
    (("too many clients",), "raise max_connections of the server, or use fewer threads and services"),
    (("Connection refused",), "start the server, or correct host and port in the address"),
    (("No such file or directory",), "start the server, or correct the folder of its socket in the address"),
    (("timeout expired",), "start the server, or correct host and port in the address"),
)
# Words of the reasons that only a change of settings or of the server's configuration removes.
LASTING = (
    "password",
    "does not exist",
    "permission denied",
    "pg_hba.conf",
    "certificate",
    "SSL",
    "newer version",
)
ENDED = ("closed unexpectedly", "SYSCALL")  # words of the reasons when a server with TLS ends


def remedy_for(reason: str) -> str:
    """Return what to do about the reason for which PostgreSQL cannot be used."""
    matching = (remedy for words, remedy in REMEDIES if all(word in reason for word in words))
    return next(matching, OTHERWISE)


def may_pass(message: str) -> bool:
    """Return whether to wait for the server, which may be starting, and not to report the error as a mistake."""
    reason = message.partition("cannot be used: ")[2] or message  # the address may have any words
    return any(word in reason for word in ENDED) or not any(word in reason for word in LASTING)
