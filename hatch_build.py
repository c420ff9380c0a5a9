"""Bundles the scripts and style sheets of pages when a wheel is made, by esbuild from npm.

Each page gets one script and one style sheet, named by their content, and compressed in advance. Without npm the
wheel has the modules as they are, which browsers load one by one; with CBIR_BUNDLES=required, as `make release`
sets it, that is an error.
"""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "service/static/bundles"  # in the wheel; a checkout never has it, since it would be out of date there


class BundleHook(BuildHookInterface[Any]):
    """Adds the bundles to a wheel."""

    _folder: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the bundles to a temporary folder, and name them for the wheel; not for an editable installation."""
        if version == "editable":
            return
        self._folder = TemporaryDirectory(prefix="cbir-bundles-")
        output = Path(self._folder.name)
        try:
            sys.path.insert(0, self.root)
            import_module("service.write_bundles").write_bundles(Path(self.root), output)
        except (OSError, subprocess.SubprocessError) as error:
            if os.environ.get("CBIR_BUNDLES") == "required":
                raise
            self.app.display_warning(f"pages are not bundled: {error}")
            return
        for path in output.iterdir():
            build_data["force_include"][str(path)] = f"{PLACE}/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if self._folder:
            self._folder.cleanup()
