"""Documents that a user saves: cases and cohorts."""
