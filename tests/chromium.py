"""The browser of the tests: Chromium without windows, which takes a third of the processor time of the other."""

from pathlib import Path

PROGRAMS = (Path("/usr/bin/chromium-headless-shell"), Path("/usr/bin/chromium"))
CHROMIUM = next(filter(Path.exists, PROGRAMS), PROGRAMS[0])
MISSING = f"there is no {CHROMIUM}; `apt-get install {CHROMIUM.name}` brings it"
