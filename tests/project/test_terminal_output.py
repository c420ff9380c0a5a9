"""Lines for people go through `printable.echo`; what other programs read is printed as it is, and named here."""

import ast

from tests.project.sources import sources

AS_IT_IS = {
    "cbir/commands/annotate/export_study.py": "csv and JSON",
    "cbir/commands/find_similar_cases.py": "JSON",
    "cbir/commands/grade/fit_grader.py": "JSON",
    "cbir/commands/grade/predict_grade.py": "JSON",
    "cbir/commands/output.py": "JSON",
    "cbir/commands/search_images.py": "JSON, a TREC run and HTML",
    "cbir/commands/train_models.py": "JSON",
    "indexer/dicomweb/crawl_command.py": "JSON",
    "indexer/index_command.py": "JSON",
    "indexer/receive/receive_command.py": "JSON",
    "service/audit_commands.py": "lines of the audit log, whose hashes are checked",
    "service/federation_commands.py": "JSON",
    "service/token_commands.py": "JSON",
}


def test_lines_for_people_do_not_control_the_terminal() -> None:
    paths = {
        source.path
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "typer.echo"
    }
    assert paths - {"cbir/commands/printable.py"} == AS_IT_IS.keys()
