"""Access control: tokens, logins, scopes, request checks and the audit log."""
