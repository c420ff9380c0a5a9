"""Exit codes of the commands that add images. Wrong use exits with 2."""

DONE, DIFFERENT, SOME_REFUSED, INTERRUPTED = 0, 1, 3, 130  # DIFFERENT: from the archive, and not applied
