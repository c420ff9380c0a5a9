"""Progress of a study and agreement of its annotators."""

from typing import Any

from cbir.active.annotator_agreement import annotator_agreement
from service.annotate.annotation_state import AnnotationState


def study_progress(state: AnnotationState, who: str) -> dict[str, Any]:
    """Return the progress of a study for the page of `who`.

    Among its fields is the round of the latest training, which the next pairs are based on.
    """
    study, model = state.study, state.study.model
    judged, total = study.count_judged(study.current)
    return {
        "round": study.current.number,
        "rounds": study.plan.rounds,
        "done": judged,
        "of": total,
        "judged": len(study.latest_judgements(who, len(study.judgements))),
        "graded": len({grade.image for grade in study.grades}),
        "people": len({judgement.who for judgement in study.judgements}),
        "learning": state.trainer.state,
        "learnt": model.after if model else 0,
        "finished": study.finished,
    }


def study_agreement(state: AnnotationState) -> dict[str, Any] | None:
    """Return the agreement between annotators; None if no pair was judged by two people."""
    result = annotator_agreement(state.study.judgements)
    if not result.pairs:
        return None
    return {"people": result.people, "pairs": result.pairs, "alpha": result.alpha}
