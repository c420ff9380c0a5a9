"""`cbir grade ...`: grade new images by graded ones."""

import typer

from cbir.learn.commands.evaluate_graders import evaluate_graders
from cbir.learn.commands.fit_grader import fit_collection_grader
from cbir.learn.commands.predict_grade import predict_grade
from cbir.learn.commands.slit_lamp_commands import app as slit_lamp

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Grade new images by graded ones.")
app.command("fit")(fit_collection_grader)
app.command("predict")(predict_grade)
app.command("evaluate")(evaluate_graders)
app.add_typer(slit_lamp, name="slit-lamp")
