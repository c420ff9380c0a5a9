"""Read the place of a DICOM frame in its series, from the data set or the functional groups of the frame."""

import math
import re
from datetime import datetime
from operator import mul

from pydicom.dataset import Dataset

from cbir.images.dicom_text import SEPARATOR, attribute_text
from cbir.images.grey_transforms import functional_groups
from cbir.images.slice_place import DAY, SlicePlace, finite_vector

GROUPS = "PerFrameFunctionalGroupsSequence", "SharedFunctionalGroupsSequence"
MACROS = (
    "PlanePositionSequence", "PlaneOrientationSequence", "FrameContentSequence", "CardiacSynchronizationSequence",
)  # fmt: skip
LARGEST = 2**31  # IS (PS3.5, 6.2)
TIME = re.compile(r"(\d\d):?(\d\d)?:?(\d\d)?(?:\.(\d{1,6}))?")


def read_slice_place(dataset: Dataset, index: int = 0) -> SlicePlace:
    """Return the place of frame `index` of a data set; what is damaged counts as absent."""
    plane, turned, content, cardiac = _groups(dataset, index)
    orientation = finite_vector(_values(turned, "ImageOrientationPatient"), 6, 5)
    return SlicePlace(
        position=finite_vector(_values(plane, "ImagePositionPatient"), 3, 3),
        orientation=orientation if orientation is not None and _is_rotation(orientation) else None,
        instance=_integer(dataset, "InstanceNumber"),
        acquisition=_integer(content, "FrameAcquisitionNumber", "AcquisitionNumber"),
        time=_acquisition_time(content),
        temporal=_integer(content, "TemporalPositionIndex", "TemporalPositionIdentifier"),
        trigger=_first(cardiac, "NominalCardiacTriggerDelayTime", "TriggerTime"),
    )


def _groups(dataset: Dataset, index: int) -> list[Dataset]:
    """Return the items of the MACROS that apply to a frame; the data set itself for those that it lacks."""
    try:
        if not any(keyword in dataset for keyword in GROUPS):
            return [dataset] * len(MACROS)
        return [next(functional_groups(dataset, index, macro), dataset) for macro in MACROS]
    except Exception:  # pydicom raises many kinds for damaged sequences
        return [dataset] * len(MACROS)


def _values(dataset: Dataset, keyword: str) -> list[str]:
    return attribute_text(dataset, keyword).split(SEPARATOR)


def _is_rotation(cosines: tuple[float, ...]) -> bool:
    """Return whether six direction cosines are of two directions at right angles."""
    across, down = cosines[:3], cosines[3:]
    lengths = math.hypot(*across), math.hypot(*down)
    return all(abs(length - 1) < 0.01 for length in lengths) and abs(sum(map(mul, across, down))) < 0.01


def _first(dataset: Dataset, *keywords: str) -> float | None:
    for keyword in keywords:
        try:
            number = float(_values(dataset, keyword)[0])
        except ValueError:
            continue
        if abs(number) < LARGEST:  # which no NaN is
            return number
    return None


def _integer(dataset: Dataset, *keywords: str) -> int | None:
    number = _first(dataset, *keywords)
    return None if number is None else int(number)


def _acquisition_time(dataset: Dataset) -> int | None:
    """Return the time of an acquisition from DT, or DA and TM values (PS3.5, 6.2)."""
    for keyword in ("FrameAcquisitionDateTime", "AcquisitionDateTime", ""):
        names = (keyword,) if keyword else ("AcquisitionDate", "AcquisitionTime")
        texts = [attribute_text(dataset, name) for name in names]
        day, clock = texts if len(texts) == 2 else (texts[0][:8], texts[0][8:])
        if match := TIME.match(clock):
            hours, minutes, seconds, fraction = match.groups()
            seconds_of_day = (int(hours) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
            return _days(day) * DAY + (seconds_of_day * 1000 + int((fraction or "0").ljust(3, "0")[:3])) % DAY
    return None


def _days(text: str) -> int:
    """Return the number of a day since the year 1; 0 for a text that is no date, YYYYMMDD."""
    try:
        return datetime.strptime(text, "%Y%m%d").toordinal()
    except ValueError:
        return 0
