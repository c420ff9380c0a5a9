"""Exit codes of the commands that add images. Wrong use exits with 2."""

DONE, SOME_REFUSED, INTERRUPTED = 0, 3, 130
