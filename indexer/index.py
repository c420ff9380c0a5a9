"""`cbir index`: of files, unless its first word names another way in."""

from typing import Any

import typer
import typer.core

from indexer.commands import index
from indexer.dicomweb.commands import dicomweb

FILES = "files"


class FilesUnlessNamed(typer.core.TyperGroup):
    """`cbir index FOLDER` is `cbir index files FOLDER`; a folder of another command's name is written ./NAME."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments, with the command that is meant in front."""
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [FILES, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=FilesUnlessNamed, add_completion=False, no_args_is_help=True)
app.command(FILES)(index)
app.command()(dicomweb)


@app.callback()
def _index() -> None:
    """Bring images into a collection: files (`cbir index FOLDER ...`), or a DICOMweb archive."""
