"""What differs between an instance of a collection and of its archive."""

from dataclasses import replace

import pytest

from cbir.ingest.description import DescribedFile
from cbir.store.upkeep.archive_instances import StoredFrame, StoredInstance
from indexer.dicomweb.archive_items import find_difference
from tests.cbir.store.conftest import entry


@pytest.mark.parametrize("earlier", [{}, {"study_date": "20010101"}])
@pytest.mark.parametrize("patient", ["before", "now"])
def test_a_collection_without_dates_gets_none(earlier, patient):
    record, vector = entry(1, "now", {"study_date": "20020202"})
    record = replace(record, patient_key="now")
    pixels = record.content_hash if patient == "before" else "other"
    stored = StoredInstance("1.2", "1.2.3", "1.2.3.4", (StoredFrame("a", record.frame, pixels, patient),))
    difference = find_difference(stored, DescribedFile((record,), (vector,)), {"a": earlier})
    new = difference.moved["a"] if patient == "before" else difference.file.records[0]
    assert new.labels.get("study_date") == ("20020202" if earlier else None)
