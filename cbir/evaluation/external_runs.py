"""Runs that come from a file: fused ones, or those of another program."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cbir.errors import InvalidInput
from cbir.evaluation.candidates import Candidates
from cbir.evaluation.methods import Method
from cbir.evaluation.query_images import EvalQuery
from cbir.evaluation.run_files import RunFile
from cbir.evaluation.run_matrix import RunMatrix
from cbir.evaluation.runs import EvalRun, SearchProtocol
from cbir.evaluation.trec import trec_word


def read_external_run(
    path: Path, candidates: Candidates, queries: Sequence[EvalQuery], protocol: SearchProtocol
) -> EvalRun:
    """Read a run under the rules of every search of an evaluation.

    Parameters
    ----------
    path : Path
        TREC run file with the names of the queries and image ids; its name is that of the run.
    candidates : Candidates
        Images that may be answers; others are left out, and counted in the notes.
    queries : sequence of EvalQuery
        Queries to evaluate. Their own pictures, and images of their patients unless the protocol allows them, are
        left out of the answers.
    protocol : SearchProtocol

    Returns
    -------
    EvalRun
        `seconds` is None, `source` the absolute path of the file.

    Raises
    ------
    InvalidInput
        If the file is no run, or has no answer to any of these queries.
    """
    run = RunFile(path)
    position_of = {record.image_id: position for position, record in enumerate(candidates.records)}
    matrix = np.full((len(queries), min(protocol.depth, len(candidates))), -1, np.int32)
    ties = unknown = unanswered = 0
    for row, query in enumerate(queries):
        answers = run.answers(trec_word(query.name))
        ranks = [rank for rank, image in enumerate(answers.images) if image in position_of]
        unknown += len(answers.images) - len(ranks)
        allowed = [
            rank
            for rank in ranks
            if _is_allowed(candidates, position_of[answers.images[rank]], query, protocol)
        ][: matrix.shape[1]]
        matrix[row, : len(allowed)] = [position_of[answers.images[rank]] for rank in allowed]
        ties += int((np.diff(answers.scores[allowed]) == 0).sum())
        unanswered += not allowed
    if unanswered == len(queries):
        raise InvalidInput(
            f"{path} has no answers to these queries among these images; is it of another collection?"
        )
    counts = {
        "answers are not among the images of this evaluation and are left out": unknown,
        "queries have no answer in the file": unanswered,
    }
    notes = [f"{count} {text}" for text, count in counts.items() if count]
    facts = {
        "parameters": {}, "scope": "", "notes": notes, "answers": int((matrix >= 0).sum()), "ties": ties,
        "seconds": None, "reused": False, "source": str(path.resolve()),
    }  # fmt: skip
    return EvalRun(Method(path.stem, ""), RunMatrix(matrix), facts)


def long_run_name(path: Path) -> str:
    """Return a name for a run file with that of its results: results/none for results/runs/none.run."""
    folder = path.resolve().parent
    return f"{(folder.parent if folder.name == 'runs' else folder).name}/{path.stem}"


def _is_allowed(candidates: Candidates, position: int, query: EvalQuery, protocol: SearchProtocol) -> bool:
    record = candidates.records[position]
    other_patient = protocol.same_patient or not query.patient or record.patient_key != query.patient
    return record.content_hash != query.content and other_patient
