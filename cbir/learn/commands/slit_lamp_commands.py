"""`cbir grade slit-lamp ...`: features of the lens in slit-lamp images."""

import typer

from cbir.learn.commands.fit_slit_lamp import fit_slit_lamp
from cbir.learn.commands.measure_slit_lamp import measure_slit_lamp

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Measure the lens in slit-lamp images.")
app.command("fit")(fit_slit_lamp)
app.command("features")(measure_slit_lamp)
