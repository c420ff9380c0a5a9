"""Csv files that people open have harmless cells; those that cbir reads back stay as they are, and are named here."""

from tests.project.sources import ROOT, sources

WRITERS = ("csv.writer(", "DictWriter(")
GUARDED = ("harmless_cell(", "map(harmless_cell", "csv_rows(", "table_row(", "reader_answer_rows(")
READ_BACK = {
    "cbir/evaluation/datasets/irma/phantom_release.py": "labels of drawn images, for cbir.evaluation.datasets.irma",
    "cbir/descriptors/lens_files.py": "outlines, read by the same module",
    "cbir/evaluation/datasets/dataset_manifests.py": "for cbir index --labels, which needs the paths",
    "service/features/usage/replay_log.py": "for cbir evaluate replay; names of collections, profiles, methods",
    "cbir/learn/training/embedding_folder.py": "split.csv for cbir index --labels; history.csv has numbers alone",
}


def test_cells_of_csv_files_are_harmless_or_read_back():
    texts = {source.path: (ROOT / source.path).read_text() for source in sources()}
    bare = {
        path
        for path, text in texts.items()
        if any(writer in text for writer in WRITERS) and not any(guard in text for guard in GUARDED)
    }
    assert bare == READ_BACK.keys()
