"""The methods that learn from several examples and from judgements."""

from collections.abc import Mapping
from typing import Any

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList
from cbir.gallery.vector_blocks import Floats
from cbir.rerank.eprf import Eprf, NoSimilarityUpdate, PlainEnsemble
from cbir.rerank.feedback import Feedback
from cbir.rerank.fuzzy_eprf import FuzzyEprf
from cbir.rerank.none import NoReranking
from cbir.rerank.nprf import NegativeFeedback
from cbir.rerank.reranker import Reranked, Reranker
from cbir.rerank.seeded_diffusion import RelevanceFeedback
from cbir.rerank.sure_examples import SureExamples
from cbir.system.threads import OneBlasThread

Learner = Feedback | Reranker
AUTO_REASON = "learns from several examples and from judgements"  # why `auto` stands for feedback


def takes_several_examples(method: type[Reranker]) -> bool:
    """Return whether a re-ranker takes several examples and judgements."""
    return method in (NoReranking, Eprf, NoSimilarityUpdate, PlainEnsemble, FuzzyEprf, NegativeFeedback)


def learner_names() -> tuple[str, ...]:
    """Return the names of all methods that take several examples and judgements."""
    return (Feedback.name, *(method.name for method in rerank.RERANKERS if takes_several_examples(method)))


def get_learner(name: str, tuned: Mapping[str, Any], parameters: Mapping[str, Any]) -> Learner:
    """Return the method `name` for several examples and judgements.

    Parameters
    ----------
    name : str
        Name of the method; "auto" for `Feedback`.
    tuned : mapping
        Parameters of the profile, for re-rankers that have them.
    parameters : mapping
        Parameters of the request, which replace them.

    Raises
    ------
    InvalidInput
        For an unknown name or parameter, a value out of bounds, or a re-ranker that takes one example only.
    """
    if name in ("auto", Feedback.name):
        return Feedback.from_values(Feedback.name, parameters)
    if not takes_several_examples(rerank.reranker_class(name)):
        raise InvalidInput(
            f"rerank: {name} takes one example and no judgements; with more, send auto or one of "
            f"{', '.join(learner_names())}"
        )
    if name == NegativeFeedback.name:  # Yan et al. 2003: positives are the examples, not the first answers
        parameters = {"P": 0, **parameters}
    return rerank.get_tuned(name, tuned, parameters)


def learn(
    learner: Learner, examples: Floats, feedback: RelevanceFeedback, ranking: RankingList, gallery: Gallery
) -> Reranked:
    """Score a ranking list by what a method learns from examples and judgements.

    Parameters
    ----------
    learner : Feedback or Reranker
        Method, from `get_learner`.
    examples : (e, d) float32
        Normalised vectors of the examples, e at least 1.
    feedback : RelevanceFeedback
        Judged images; they need not be in the list.
    ranking : RankingList
        List of m images, by the distance to the nearest example.
    gallery : Gallery
        Vectors of the collection.
    """
    if isinstance(learner, Feedback):
        return learner(examples, feedback, ranking, gallery)
    if isinstance(learner, NoReranking):
        return learner(examples[0], ranking, gallery)
    with OneBlasThread():
        sure = SureExamples.collect(examples, feedback, gallery)
        if isinstance(learner, Eprf):
            return sure.rerank_by_eprf(learner, ranking, gallery)
        if isinstance(learner, NegativeFeedback):
            return sure.rerank_by_nprf(learner, ranking, gallery)
    raise TypeError(f"{learner.name} takes one example")
