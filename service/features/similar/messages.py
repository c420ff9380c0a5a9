"""Messages about similar studies, series and instances, and about other studies of a patient."""

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from pydantic import BaseModel, Field

from cbir.search import DicomPlace, Hit, Links, RerankFacts, record_links
from cbir.search import example_values as example
from cbir.search.search_models import LabelsLeftOut
from cbir.store.external_links import compare_link

if TYPE_CHECKING:
    from cbir.search.prior_studies import PriorImage, PriorStudies, PriorStudy
    from cbir.settings import Settings


class SliceMatch(BaseModel):
    """The image of a result that is most similar to an image of the query."""

    query: str = Field(description="Id of the query's image.", examples=[example.IMAGE_ID])
    image_id: str = Field(description="Id of the result's image.", examples=[example.OTHER_IMAGE_ID])
    instance: str = Field(
        description="SOP Instance UID of the result's image.", examples=[example.INSTANCE_UID]
    )
    frame: int | None = Field(description="Frame of the result's image, from 1; null for the only one.")
    score: float = Field(description="Similarity, at most 1, which means equal vectors.", examples=[0.93])


class SimilarPlace(BaseModel):
    """A similar instance, series or study."""

    rank: int = Field(description="Position in the results, from 1.", examples=[1])
    score: float = Field(
        description="Score of the group, combined from those of its images as `combine` says; larger is more "
        "similar.",
        examples=[1.84],
    )
    found: int = Field(
        description="Number of its images in the ranking lists of the query's images; with combine=maxsim, among "
        "its matches.",
        examples=[12],
    )
    study: str = Field(description="Study Instance UID.", examples=[example.STUDY_UID])
    series: str | None = Field(
        description="Series Instance UID; null at level study.", examples=[example.SERIES_UID]
    )
    instance: str | None = Field(
        description="SOP Instance UID; null at the levels series and study.", examples=[example.INSTANCE_UID]
    )
    best: Hit = Field(
        description="Its image with the highest score, with the rank in its list; with maxsim the rank is that of "
        "the result."
    )
    matches: list[SliceMatch] = Field(
        default=[],
        description="With maxsim, its most similar image for each image of the query; else empty.",
        examples=[[]],
    )


class SimilarQuery(BaseModel):
    """The instance, series or study that was searched with."""

    study: str = Field(description="Study Instance UID of the query.", examples=[example.STUDY_UID])
    series: str | None = Field(
        description="Series Instance UID; null for a whole study.", examples=[example.SERIES_UID]
    )
    instance: str | None = Field(description="SOP Instance UID; null for a whole series or study.")
    images: int = Field(
        description="Number of its images that were searched with, each with a ranking list of its own.",
        examples=[20],
    )


class SimilarAnswer(BaseModel):
    """A page of similar cases."""

    query: SimilarQuery = Field(description="What was searched with, and with how many of its images.")
    level: str = Field(description="What the results are: instance, series or study.", examples=["instance"])
    combine: str = Field(
        description="How scores of images were combined: max, sum, frequency or maxsim.", examples=["sum"]
    )
    exclude: str = Field(
        description="Part of the query that was left out of the results: instance, series, study or patient.",
        examples=["study"],
    )
    total: int = Field(description="Number of similar cases on all pages.", examples=[57])
    results: list[SimilarPlace] = Field(description="Similar cases of this page, best first.")
    rerank: RerankFacts = Field(description="The re-ranking that was done.")
    timings_ms: dict[str, float] = Field(
        description="Duration of each stage in milliseconds.", examples=[{"search": 4.2, "total": 9.8}]
    )


class PriorImageInfo(BaseModel):
    """An image of another study of the patient."""

    image_id: str = Field(description="Id of the image.", examples=[example.OTHER_IMAGE_ID])
    query: str = Field(
        description="Id of the query's image that it was compared with: the one it is most like.",
        examples=[example.IMAGE_ID],
    )
    likeness: float = Field(
        description="Likeness of the two, at most 1, which means equal vectors.", examples=[0.93]
    )
    same_view: bool | None = Field(
        description="Whether the labels modality, body_part, view_position and laterality say that it is the same "
        "view: false if one of them differs, null if they do not name the view position of both.",
        examples=[True],
    )
    labels: dict[str, str] = Field(
        description="Labels of the image: key and value.", examples=[example.LABELS]
    )
    labels_left_out: LabelsLeftOut = False
    dicom: DicomPlace | None = Field(description="UIDs of the image; null for an image that is not DICOM.")
    links: Links = Field(description="Addresses of the image.")


class PriorStudyInfo(BaseModel):
    """Another study of the patient."""

    rank: int = Field(description="Position in the answer, from 1.", examples=[1])
    study: str | None = Field(
        description="Study Instance UID; null for images without one, which are together if they are of one day.",
        examples=[example.STUDY_UID],
    )
    days_before: int | None = Field(
        description="Days from this study to that of the query; negative if it is later, null if unknown.",
        examples=[372],
    )
    likeness: float = Field(description="Likeness of its best image.", examples=[0.93])
    same_view: bool | None = Field(description="That of its best image.", examples=[True])
    count: int = Field(description="Number of its images that meet the conditions.", examples=[2])
    images: list[PriorImageInfo] = Field(description="Its best images, best first.")
    page: str = Field(
        description="Address of the search page with its best image.",
        examples=[f"/?image={example.OTHER_IMAGE_ID}"],
    )
    compare: str | None = Field(
        description="Address of both studies side by side in the viewer; null unless the settings name one and both "
        "studies are DICOM."
    )


class PriorAnswer(BaseModel):
    """Other studies of the patient of an image."""

    image_id: str = Field(description="Id of the image that was asked for.", examples=[example.IMAGE_ID])
    study: str | None = Field(
        description="Its Study Instance UID; null for an image without one.", examples=[example.STUDY_UID]
    )
    total: int = Field(description="Number of other studies that the caller may see.", examples=[3])
    studies: list[PriorStudyInfo] = Field(description="Other studies, best first.")
    reason: str | None = Field(
        description="Why there is none; null if there is one.",
        examples=["the collection has no other study of this patient"],
    )


def prior_message(priors: "PriorStudies", settings: "Settings", collection: str | None) -> PriorAnswer:
    """Return the message of the other studies of the patient of an image.

    Parameters
    ----------
    priors : PriorStudies
        What was found.
    settings : Settings
        Addresses of archive and viewer.
    collection : str, optional
        Name of the collection for addresses; None for the default one.
    """
    query = priors.queries[0]
    ranked = enumerate(priors.studies, 1)
    return PriorAnswer(
        image_id=query.image_id,
        study=query.study or None,
        total=priors.total,
        studies=[_study(rank, study, settings, collection) for rank, study in ranked],
        reason=priors.reason or None,
    )


def search_page(image_id: str, collection: str | None) -> str:
    """Return the address of the search page with an image of a collection; None: of the default one."""
    params = {"image": image_id} | ({"collection": collection} if collection else {})
    return f"/?{urlencode(params)}"


def _study(rank: int, study: "PriorStudy", settings: "Settings", collection: str | None) -> PriorStudyInfo:
    best = study.best
    is_dicom = best.record.format != "nifti"  # whose UIDs are our own
    return PriorStudyInfo(
        rank=rank,
        study=study.study or None,
        days_before=study.days_before,
        likeness=best.likeness,
        same_view=best.same_view,
        count=study.count,
        images=[_image(image, settings, collection) for image in study.images],
        page=search_page(best.record.image_id, collection),
        compare=compare_link(settings, best.query.study, study.study) if is_dicom else None,
    )


def _image(image: "PriorImage", settings: "Settings", collection: str | None) -> PriorImageInfo:
    record = image.record
    return PriorImageInfo(
        image_id=record.image_id,
        query=image.query.image_id,
        likeness=image.likeness,
        same_view=image.same_view,
        labels=record.labels,
        dicom=DicomPlace.of_record(record),
        links=record_links(settings, record).in_collection(collection),
    )
