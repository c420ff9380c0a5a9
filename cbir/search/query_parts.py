"""Parts of a request beside its images: the method that answers it, vectors, judgements, and the patient."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cbir import rerank
from cbir.descriptors.descriptor import QueryImage
from cbir.errors import InvalidInput, NotFound
from cbir.gallery.vector_blocks import Doubles, Floats
from cbir.images import Image
from cbir.rerank import AutoChoice, read_choice
from cbir.rerank.answer_evidence import BY_IMAGE, BY_PATIENT, EvidenceByKey
from cbir.rerank.diffusion import RelevanceFeedback
from cbir.rerank.feedback import Feedback
from cbir.rerank.several_examples import AUTO_REASON, Learner, get_learner, learner_names
from cbir.search.search_options import Request
from cbir.store import Collection, Record
from cbir.store.base.normalisation import Statistics
from cbir.store.base.profile import Profile, vector_format
from cbir.store.index.port import Numbers
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import DicomScope, PatientScope
from cbir.store.records.records import hash_patient
from cbir.store.safety.row_damage import vectors_not_finite


def check_profile(requested: str | None, vector: Any, profile: Profile) -> None:
    """Raise InvalidInput if a search names another profile than that of the collection.

    Parameters
    ----------
    requested : str or None
        Name or hash of the profile that `vector` was computed with; None if the search names none.
    vector : array-like or None
        What is searched with.
    profile : Profile
        Profile of the collection.
    """
    if requested is None:
        return
    if vector is None:
        raise InvalidInput("profile: says what `vector` was computed with; send that too")
    if requested not in (profile.name, profile.hash):
        raise InvalidInput(
            f"profile: the collection has the profile {profile.name} ({profile.hash}); vectors of another one cannot "
            "be compared with it"
        )


def check_vectors(vector: Any, profile: Profile) -> Floats:
    """Return one or several raw vectors as an array (v, d) float32.

    Parameters
    ----------
    vector : array-like
        (d,) or (v, d) raw values of the profile's descriptor.
    profile : Profile
        Profile of the collection.

    Raises
    ------
    InvalidInput
        For another number of values, values whose squares are not finite in float32, and no vector at all.
    """
    dimensions = vector_format(profile).dimensions
    expected = f"vector: the profile {profile.name} has vectors of {dimensions} finite numbers"
    try:
        with np.errstate(over="ignore"):
            vectors = np.atleast_2d(np.asarray(vector, np.float32))
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{expected}, all of one length") from None
    if vectors.ndim != 2 or not len(vectors) or vectors.shape[1] != dimensions:
        shape = "x".join(map(str, np.shape(vector))) or "a single number"
        raise InvalidInput(f"{expected}, not {shape}")
    if len(vectors_not_finite(vectors)):
        raise InvalidInput(f"{expected}, and the squares of these are not finite in 32 bits")
    return vectors


def normalise_vectors(vectors: Floats, statistics: Statistics) -> Floats:
    """Normalise raw vectors (v, d) as a view does; raises InvalidInput where distances to one would overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        normalised = np.stack([statistics.normalise(vector) for vector in vectors])
    if len(vectors_not_finite(normalised)):
        raise InvalidInput("vector: its values are too large to compare; send raw values of the descriptor")
    return normalised


def query_patient(
    collection: Collection, images: Sequence[Image | QueryImage], records: Sequence[Record]
) -> PatientScope:
    """Return the images of the first query image's patient, without those of its own study.

    Parameters
    ----------
    collection : Collection
        Collection that is searched; its secret makes the key of a patient.
    images : sequence of Image or QueryImage
        Query images from outside.
    records : sequence of Record
        Query images of the collection.

    Raises
    ------
    InvalidInput
        Without a query image.
    """
    if images:
        first = images[0]
        patient, study = (
            (first.patient_id, first.study)
            if isinstance(first, QueryImage)
            else (first.dicom.patient_id, first.dicom.study)
            if first.dicom
            else ("", "")
        )
        return PatientScope(hash_patient(collection.secret, patient), study)
    if records:
        return PatientScope(records[0].patient_key, records[0].study)
    raise InvalidInput("same_patient: needs an image to search with, whose patient is known")


def without_own_study(
    request: Request, images: Sequence[Image | QueryImage], records: Sequence[Record]
) -> Request:
    """Return the request that leaves out the study of the first query image, if it is to.

    Parameters
    ----------
    request : Request
        Of a search; what callers leave out already stays so.
    images : sequence of Image or QueryImage
        Query images from outside.
    records : sequence of Record
        Query images of the collection.
    """
    is_known = request.outside is not None or request.without_patient_key is not None
    if not request.exclude_own_study or is_known or not (images or records):
        return request
    if not images:
        study, patient = records[0].study, records[0].patient_key
    elif isinstance(images[0], QueryImage):
        study, patient = images[0].study, None
    else:
        study, patient = (images[0].dicom.study if images[0].dicom else ""), None
    if study:
        return request.model_copy(update={"outside": DicomScope(study, only_dicom=False)})
    return request.model_copy(update={"without_patient_key": patient})


def read_feedback(collection: Collection, request: Request) -> tuple[Numbers, Doubles]:
    """Return the numbers of the judged images, in the order of the request, and their relevance; 0 is left out.

    Raises NotFound for an unknown image, and InvalidInput for one that is judged more than once.
    """
    ids = [judgement.image_id for judgement in request.feedback]
    repeated = next((image_id for index, image_id in enumerate(ids) if image_id in ids[:index]), None)
    if repeated is not None:
        raise InvalidInput(f"feedback: image {repeated} is judged more than once")
    numbers = collection.numbers_of(ids)
    relevance = np.array([judgement.relevance for judgement in request.feedback], np.float64)
    return numbers[relevance != 0.0], relevance[relevance != 0.0]


def feedback_in(ids: Numbers, numbers: Numbers, relevance: Doubles) -> RelevanceFeedback:
    """Return judgements by the rows of a view; raises NotFound for an image that was deleted meanwhile.

    Parameters
    ----------
    ids : (n,) int64
        Image numbers of the view's rows, ascending.
    numbers : (j,) int64
        Numbers of the judged images.
    relevance : (j,) float64
        Their relevance.
    """
    rows = np.searchsorted(ids, numbers)
    if not np.isin(numbers, ids).all():
        raise NotFound("feedback: a judged image has been deleted meanwhile; search again without it")
    return RelevanceFeedback(rows, relevance)


def read_vectors(collection: Collection, image_ids: Sequence[str], *, raw: bool = False) -> Floats:
    """Return the vectors (n, d) float32 of some images, in the order of their ids.

    Parameters
    ----------
    collection : Collection
    image_ids : sequence of str
        At most some hundred ids.
    raw : bool
        Return the values of the descriptor; else the normalised values that searches compare.

    Raises
    ------
    NotFound
        For an unknown id.
    """
    statistics = collection.normalisation()
    if not image_ids:
        return np.empty((0, statistics.dimensions), np.float32)
    vectors = np.stack([collection.vector(image_id) for image_id in image_ids])
    return vectors if raw else statistics.normalise(vectors)


# For callers with rights to a part of a collection: the reason itself counts images and names labels of the rest.
UNSEEN_REASON = "the method of the whole collection"


@dataclass(frozen=True)
class ChosenMethod:
    """A re-ranker, why `auto` stands for it, and how often labels of its answers agree rightly.

    reason: empty if the request names another method. evidence: by label key; empty where it was not measured for
    such requests, and for callers who may not see all images that it was measured on.
    """

    reranker: rerank.Reranker
    reason: str = ""
    evidence: EvidenceByKey = field(default_factory=dict)


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
