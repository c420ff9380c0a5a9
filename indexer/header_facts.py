"""Facts in the headers of DICOM files that an older version indexed without them."""

from collections.abc import Callable

from cbir.images.dicom_dataset import frame_count, read_header
from cbir.images.dicom_decoder import dicom_header
from cbir.images.dicom_place import read_slice_place
from cbir.images.reading import recognise_format
from cbir.images.suppress_logs import suppress_decoder_logs
from cbir.ingest.description import DescribeTask
from cbir.store.records.records import SLICE_PLACE, person_labels, stored_place

FrameFacts = dict[int | None, dict[str, str]]


def read_header_facts(read: Callable[[], bytes], describe: DescribeTask) -> FrameFacts:
    """Return labels and place of the frames of a DICOM file by their numbers, None for a single one.

    Nothing where the file cannot be read. read: returns its content.
    """
    try:
        with suppress_decoder_logs():
            data = read()
            if recognise_format(data) != "dicom":
                return {}
            dataset = read_header(data, describe.limits, None)
            header, count = dicom_header(dataset), frame_count(dataset)
            dated = header.patient_id if describe.study_days else ""
            labels = person_labels(header)
            return {
                index + 1 if count > 1 else None: labels
                | {
                    SLICE_PLACE: stored_place(
                        describe.secret, dated, header.series, read_slice_place(dataset, index)
                    )
                }
                for index in range(min(count, describe.limits.frames))
            }
    except Exception:  # damaged files raise anything; the images stay as they are
        return {}
