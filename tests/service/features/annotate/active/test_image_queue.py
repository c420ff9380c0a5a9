"""Single images: who is asked for which, in which order, and when their grades are trained on."""

import numpy as np
import pytest

from cbir.errors import InvalidInput
from cbir.learn.severity.judged_pairs import SeverityEstimate, check_judged_pairs
from service.features.annotate.active.judgement_journal import ImageGrade, utc_now
from service.features.annotate.image_queue import ImageQueue
from service.features.annotate.study import MIN_NEW_GRADES
from service.features.annotate.study_plan import StudyPlan
from tests.service.features.annotate.active.test_study import Opening, give_grade, opening

__all__ = ["opening"]  # a fixture

IDS = [f"{number:032x}" for number in range(40)]
PLAN = StudyPlan(grades=(0.0, 1.0, 2.0), overlap=0.0)


def grade(image: str, value: float | None = 1.0, who: str = "Ada") -> ImageGrade:
    return ImageGrade(
        name=f"grade-{image[-4:]}-{who}", at=utc_now(), who=who, seconds=1, image=image, grade=value
    )


def severity(mean: np.ndarray, variance: np.ndarray) -> SeverityEstimate:
    return SeverityEstimate(
        mean.astype(np.float32), variance.astype(np.float32), np.zeros((len(mean), 1), np.float32)
    )


def test_each_image_goes_to_one_person() -> None:
    queue = ImageQueue(IDS, PLAN)
    first = queue.next_images("Ada", 10, [], None, None)
    assert len(set(first)) == 10
    assert not set(first) & set(queue.next_images("Bob", 10, [], None, None)), "Ada is at these"
    answers = [grade(image) for image in first]
    rest = queue.next_images("Bob", 40, answers, None, None)
    assert set(rest) == set(IDS) - set(first)
    assert queue.next_images("Ada", 10, answers, None, None) != first


def test_the_order_is_the_same_when_images_are_added() -> None:
    assert ImageQueue(IDS, PLAN).next_images("Ada", 40, [], None, None) == [
        image
        for image in ImageQueue([*IDS, "f" * 32], PLAN).next_images("Ada", 41, [], None, None)
        if image in IDS
    ]
    other = ImageQueue(IDS, PLAN.model_copy(update={"seed": 1}))
    assert other.next_images("Ada", 40, [], None, None) != ImageQueue(IDS, PLAN).next_images(
        "Ada", 40, [], None, None
    )


def test_shared_images_go_to_everyone() -> None:
    queue = ImageQueue(IDS, PLAN.model_copy(update={"overlap": 1.0}))
    answers = [grade(image) for image in IDS]
    assert set(queue.next_images("Bob", 40, answers, None, None)) == set(IDS)
    assert queue.next_images("Ada", 40, answers, None, None) == []


def test_an_image_that_cannot_be_judged_stays_open_for_others() -> None:
    queue = ImageQueue(IDS, PLAN)
    answers = [grade(IDS[0], None)]
    assert IDS[0] not in queue.next_images("Ada", 40, answers, None, None)
    assert IDS[0] in queue.next_images("Bob", 40, answers, None, None)


def test_the_scale_takes_turns_with_the_least_certain_first() -> None:
    mean, variance = np.repeat(np.arange(8.0), 5), np.tile(np.arange(5.0), 8)
    estimate, known = severity(mean, variance), np.ones(40, bool)
    first = ImageQueue(IDS, PLAN).next_images("Ada", 8, [], estimate, known)
    rows = np.array([IDS.index(image) for image in first])
    assert sorted(mean[rows]) == list(range(8)), "one of each bin"
    assert (variance[rows] == 4).all(), "its least certain one"
    answers = [grade(IDS[row]) for row in range(3)]  # of the lowest bin
    later = ImageQueue(IDS, PLAN).next_images("Bob", 21, answers, estimate, known)
    assert not set(later) & set(IDS[:5]), "the others have fewer grades"


def test_images_that_the_model_does_not_know_come_last() -> None:
    known = np.arange(40) < 10
    images = ImageQueue(IDS, PLAN).next_images("Ada", 40, [], severity(np.arange(40.0), np.ones(40)), known)
    assert set(images[:10]) == set(IDS[:10])
    assert set(images) == set(IDS)


@pytest.mark.parametrize("ids", [[], IDS[:1]])
def test_few_images(ids: list[str]) -> None:
    assert ImageQueue(ids, PLAN).next_images("Ada", 4, [], None, None) == ids


def test_grades_alone_are_trained_on(opening: Opening) -> None:
    study = opening(StudyPlan(grades=(0.0, 1.0, 2.0), step=0.01), IDS)
    for image in IDS[: MIN_NEW_GRADES - 1]:
        give_grade(study, image, 1)
    assert study.round_to_train() is None
    give_grade(study, IDS[30], 2)
    assert study.round_to_train() == 0, "within the first round"


def test_images_no_one_could_judge_are_nothing_to_train_on(opening: Opening) -> None:
    study = opening(StudyPlan(grades=(0.0, 1.0, 2.0), step=0.01), IDS)
    for image in IDS[:MIN_NEW_GRADES]:
        study.judge(grade(image, None))
    assert study.round_to_train() is None
    assert study.grades == []
    with pytest.raises(InvalidInput, match="no grade of this study"):
        study.judge(grade(IDS[0], 1.5, "Bob"))


def test_grades_without_pairs_can_be_learned() -> None:
    judged = check_judged_pairs(3, np.empty((0, 2), int), [], [0.0, np.nan, 2.0])
    assert judged.pairs.tolist() == [[0, 0], [2, 2]]
    assert judged.mean_grade == 1
    with pytest.raises(InvalidInput, match="one pair or one grade"):
        check_judged_pairs(3, np.empty((0, 2), int), [], [np.nan] * 3)


def test_the_last_grades_are_trained_on(opening: Opening) -> None:
    study = opening(StudyPlan(grades=(0.0, 1.0, 2.0), step=0.01), IDS[: MIN_NEW_GRADES - 2])
    for image in study.ids[1:]:
        give_grade(study, image, 1)
    assert study.round_to_train() is None
    study.judge(grade(study.ids[0], None))
    assert study.round_to_train() == 0, "no image is left to wait for"
