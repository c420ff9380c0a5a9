"""Choice of the method that answers a request."""

from dataclasses import dataclass, field

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.rerank.auto import BY_IMAGE, BY_PATIENT, AutoChoice, EvidenceByKey, read_choice
from cbir.rerank.feedback import Feedback
from cbir.rerank.several_examples import AUTO_REASON, Learner, get_learner, learner_names
from cbir.search.search_request import Request
from cbir.store import Collection
from cbir.store.limited_collection import LimitedCollection

# For callers with rights to a part of a collection: the reason itself counts images and names labels of the rest.
UNSEEN_REASON = "the method of the whole collection"


@dataclass(frozen=True)
class ChosenMethod:
    """A re-ranker, why `auto` stands for it, and how often labels of its answers agree rightly.

    reason: empty if the request names another method. agreement: by label key; empty where it was not measured for
    such requests, and for callers who may not see all images that it was measured on.
    """

    reranker: rerank.Reranker
    reason: str = ""
    agreement: EvidenceByKey = field(default_factory=dict)


def choose_reranker(collection: Collection, default: str, request: Request, auto: str | None) -> ChosenMethod:
    """Return the re-ranker of a request with one example and no judgements.

    Parameters
    ----------
    collection : Collection
    default : str
        Re-ranker of requests that name none.
    request : Request
        Parameters of the search.
    auto : str or None
        Text of the re-ranker that `auto` stands for; None if none was chosen.

    Raises
    ------
    InvalidInput
        For `feedback`, which needs more than one example.
    """
    method = request.rerank or default
    tuned = collection.profile.rerank
    if method == Feedback.name:
        raise InvalidInput(
            "rerank: feedback learns from several examples or from judgements; send some, or name another method"
        )
    if method != "auto" or request.parameters:
        return ChosenMethod(rerank.get_tuned(method, tuned, request.parameters))
    choice = read_choice(auto, collection.profile.descriptor)
    reranker = rerank.get_tuned(choice.method, tuned, dict(choice.parameters))
    if isinstance(collection, LimitedCollection):
        return ChosenMethod(reranker, UNSEEN_REASON)
    return ChosenMethod(reranker, choice.reason, _evidence_for(choice, request))


def _evidence_for(choice: AutoChoice, request: Request) -> EvidenceByKey:
    """Return what was counted for answers as a request has them: of all images, one by one or one of each patient."""
    narrowed = request.where, request.same_patient, request.max_distance, request.score_threshold
    if any(each not in (None, False, []) for each in narrowed) or request.group_size != 1:
        return {}
    forms = {None: BY_IMAGE, BY_PATIENT: BY_PATIENT}
    form = forms.get(request.group_by)
    return choice.evidence.get(form, {}) if form else {}


def choose_learner(collection: Collection, default: str, request: Request) -> tuple[Learner, str]:
    """Return the method that learns from examples and judgements, and why `auto` stands for it.

    A default re-ranker that cannot learn from them is no reason to refuse a request that names none.

    Parameters
    ----------
    collection : Collection
    default : str
        Re-ranker of requests that name none.
    request : Request
        Parameters of the search.
    """
    name = request.rerank or default
    if request.rerank is None and name not in learner_names():
        name = "auto"
    learner = get_learner(name, collection.profile.rerank, request.parameters)
    return learner, AUTO_REASON if name == "auto" else ""
