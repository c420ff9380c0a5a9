"""Who may ask for what: tokens, logins, scopes, and a log of what was done."""
