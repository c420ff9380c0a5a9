"""Output of commands, and how their help reads."""
