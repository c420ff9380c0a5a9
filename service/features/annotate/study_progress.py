"""Progress of a study and agreement of its annotators."""

from service.features.annotate.active.annotator_agreement import annotator_agreement
from service.features.annotate.annotation_state import AnnotationState
from service.features.annotate.study_messages import PairAgreement, StudyProgress


def study_progress(state: AnnotationState, who: str) -> StudyProgress:
    """Return the progress of a study for the page of `who`."""
    study, model = state.study, state.study.model
    judged, total = study.count_judged(study.current)
    return StudyProgress(
        round=study.current.number,
        rounds=study.plan.rounds,
        done=judged,
        of=total,
        judged=len(study.latest_judgements(who, len(study.judgements))),
        graded=len({grade.image for grade in study.grades}),
        graded_by_you=sum(answer.who == who for answer in study.image_answers),
        images=len(study.ids),
        people=len({judgement.who for judgement in study.judgements}),
        learning=state.trainer.state,
        learnt=model.after if model else 0,
        trained_on=max(model.entries, 1) if model else 0,
        finished=study.finished,
    )


def study_agreement(state: AnnotationState) -> PairAgreement | None:
    """Return the agreement between annotators; None if no pair was judged by two people."""
    result = annotator_agreement(state.study.judgements)
    if not result.pairs:
        return None
    return PairAgreement(people=result.people, pairs=result.pairs, alpha=result.alpha)
