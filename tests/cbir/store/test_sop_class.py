"""Collections that an older version made, which kept no SOP Class UID."""

from pathlib import Path

import numpy as np

from cbir.store import Collection, Record, profile
from cbir.store.collection import schema
from cbir.store.collection_view import vector_length


def test_an_older_collection_is_opened_and_added_to(tmp_path: Path) -> None:
    kind = profile.get("huang2012")
    vector = np.zeros(vector_length(kind), np.float32)

    def record(number: int, sop_class: str) -> Record:
        return Record(f"{number:032x}", f"/{number}", "", "dicom", 8, 8, instance="1.2", sop_class=sop_class)

    with Collection.create(tmp_path / "c", kind) as made:
        with made.writer() as writer:
            writer.add([(record(1, "1.2.840.10008.5.1.4.1.1.2"), vector)])
        with made._engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE images DROP COLUMN sop_class")
            connection.exec_driver_sql("DROP INDEX ix_images_study")
    for _ in range(2):
        with Collection(tmp_path / "c") as opened:
            schema.complete(opened._engine)
            assert opened.record(f"{1:032x}").sop_class == ""
    with Collection(tmp_path / "c") as opened:
        with opened.writer() as writer:
            writer.add([(record(2, "1.2.840.10008.5.1.4.1.1.4"), vector)])
        assert opened.record(f"{2:032x}").sop_class == "1.2.840.10008.5.1.4.1.1.4"
