"""How far a study is."""

from typing import Any

from cbir.active.annotators import agreement
from service.annotate.state import Annotation


def progress(here: Annotation, who: str) -> dict[str, Any]:
    """What the page shows and goes by. learnt: the round that was learnt last; the pairs that are asked follow it."""
    study, model = here.study, here.study.model
    done, of = study.done(study.current)
    return {
        "round": study.current.number,
        "rounds": study.plan.rounds,
        "done": done,
        "of": of,
        "judged": len(study.last_of(who, len(study.standing))),
        "people": len({one.who for one in study.standing}),
        "learning": here.learner.state,
        "learnt": model.after if model else 0,
        "finished": study.finished,
    }


def agreed(here: Annotation) -> dict[str, Any] | None:
    """How far people agree; None where no pair was judged by two."""
    found = agreement(here.study.standing)
    if not found.pairs:
        return None
    return {"people": found.people, "pairs": found.pairs, "alpha": found.alpha}
