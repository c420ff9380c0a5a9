"""Answers of a reader study as rows of a csv."""

from typing import Any

from cbir.system.csv_cells import harmless_cell
from service.features.annotate.reader_study import tables as reader_studies
from service.features.annotate.reader_study.tables import ReaderStudy
from service.state.database import StateDatabase


def reader_answer_rows(database: StateDatabase, study: ReaderStudy) -> list[list[Any]]:
    """Return the rows of the csv of answers, heads first."""
    queries = {item.item: item.query for item in reader_studies.read_items(database, study.name)}
    rows: list[list[Any]] = [
        ["reader", "item", "query", "a", "b", "useful_a", "useful_b", "preferred", "left", "relevant", "irrelevant",
         "seconds", "note"],
    ]  # fmt: skip
    for answer in reader_studies.read_answers(database, study.name):
        judged = [
            " ".join(image for image, value in answer.relevant.items() if value is kind)
            for kind in (True, False)
        ]
        cells = [
            answer.reader, answer.item, queries.get(answer.item, ""), study.method_a, study.method_b,
            answer.useful_a, answer.useful_b, {-1: "a", 0: "equal", 1: "b"}[answer.preference],
            "a" if answer.a_left else "b", *judged, f"{answer.seconds:.1f}", answer.note,
        ]  # fmt: skip
        rows.append([harmless_cell(cell) for cell in cells])
    return rows
