"""Damage copies of a collection at random, and see what the commands and a search make of each.

After each damage, `verify`, `info`, `search`, `compact` and `verify --repair` run, and a search opens the collection
as the service does. Counted are tracebacks, crashes, answers (hits, labels and thumbnails) that differ from those of
the sound collection without any error or warning, and rows that differ from the sound ones though `verify --repair`
ended with exit code 0 and named nothing as lost. The snapshot has all files of one of 100,000 images; `--files` names
those to damage, in place of the database mostly.

With `--flips N`, N single bits are flipped instead, in all files of a collection, of its last good copy and of a
backup in turn: `verify` has to see each of them, unless nothing that is read has changed (flipped_bits.py).

    python bench/damage.py [--count 300] [--seed 0] [--images 300] [--flips 0] [--files snapshot neighbours codes]
"""

import argparse
import io
import json
import random
import shutil
import sqlite3
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import faiss
import numpy as np
from flipped_bits import flip_campaign
from sizing import entry

from cbir.api.main import main as run_command
from cbir.errors import CbirError
from cbir.search.view_vectors import EVERYTHING, ViewVectors
from cbir.store import Collection, DatabaseError
from cbir.store.base import profile as profiles
from cbir.store.base.schema import CHECKED, meta, vectors
from cbir.store.records.add_transaction import Added, AddTransaction
from cbir.store.upkeep.restore import open_or_fallback
from cbir.store.views import snapshot_build

PAGE = 4096
SECONDS = 120.0
QUERIES = 5
HITS = 10
SUFFIXES = {"snapshot": ".index", "neighbours": ".neighbours", "codes": ".codes"}  # of files in `snapshots`
MOSTLY_DATABASE = ("collection.sqlite",) * 8 + tuple(SUFFIXES)


def make_collection(folder: Path, images: int) -> None:
    """Make a collection with labels, thumbnails, history and images that the snapshot does not have."""
    vectors = np.random.default_rng(0).standard_normal((images, 168), dtype=np.float32)

    def attach(transaction: AddTransaction, added: Added) -> None:
        transaction.store_thumbnails(dict.fromkeys(added.numbers.values(), b"jpeg" * 100))

    with Collection.create(folder, profiles.get("huang2012")) as collection, collection.writer() as writer:
        most = images * 97 // 100
        ids = writer.add([entry(n, vectors[n]) for n in range(most)], in_transaction=attach).ids
        writer.compact()
        writer.delete(ids[5:8])
        writer.add([entry(n, vectors[n]) for n in range(most, images)], in_transaction=attach)
        writer.set_labels(ids[0], {"reviewed": "yes"})
    with closing(sqlite3.connect(folder / "collection.sqlite")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def damage(folder: Path, choose: random.Random, files: Sequence[str] = MOSTLY_DATABASE) -> str:
    """Damage one of the files of a collection; return a description."""
    name = choose.choice(files)
    path = folder / name
    if name in SUFFIXES:
        path = next((folder / "snapshots").glob(f"*{SUFFIXES[name]}"))
    content = bytearray(path.read_bytes())
    kinds: dict[str, Callable[[], None]] = {
        "bit": lambda: _flip(content, choose, len(content)),
        "schema bit": lambda: _flip(content, choose, PAGE),
        "schema bytes": lambda: _overwrite(content, choose, PAGE, choose.randint(1, 64)),
        "bytes": lambda: _overwrite(content, choose, len(content), choose.randint(1, 512)),
        "pages": lambda: _overwrite(content, choose, len(content), choose.randint(512, 4 * PAGE)),
        "zeroes": lambda: _zero(content, choose),
        "misplaced page": lambda: _misplace(content, choose),
        "cut": lambda: content.__delitem__(slice(choose.randrange(len(content)), None)),
    }
    kind = choose.choice(list(kinds))
    kinds[kind]()
    path.write_bytes(content)
    return f"{name}: {kind}"


def _flip(content: bytearray, choose: random.Random, end: int) -> None:
    content[choose.randrange(min(end, len(content)))] ^= 1 << choose.randrange(8)


def _overwrite(content: bytearray, choose: random.Random, end: int, length: int) -> None:
    start = choose.randrange(min(end, len(content)))
    length = min(length, len(content) - start)
    content[start : start + length] = choose.randbytes(length)


def _zero(content: bytearray, choose: random.Random) -> None:
    start = choose.randrange(len(content) // PAGE + 1) * PAGE
    length = min(PAGE, len(content) - start)
    content[start : start + length] = bytes(length)


def _misplace(content: bytearray, choose: random.Random) -> None:
    pages = max(1, len(content) // PAGE)
    source, target = choose.randrange(pages) * PAGE, choose.randrange(pages) * PAGE
    content[target : target + PAGE] = content[source : source + PAGE]


def answers(folder: Path) -> tuple[str, list[Any]]:
    """Open a collection as the service does and search; return a state ("sound", "warned", "refused") and hits."""
    try:
        with open_or_fallback(folder) as collection:
            vectors = ViewVectors(collection).for_search()
            ids = []
            for seed in range(QUERIES):
                query = np.random.default_rng(seed).standard_normal(168, dtype=np.float32)
                queries = vectors.statistics.normalise(query)[None]
                numbers = vectors.nearest(queries, HITS, EVERYTHING)[0].numbers.tolist()
                records = collection.records(numbers)
                shown = [records[number] for number in numbers]
                ids.append([(r.image_id, r.labels, collection.thumbnail(r.image_id)) for r in shown])
            return "warned" if collection.snapshot_problem else "sound", ids
    except (CbirError, DatabaseError):
        return "refused", []


def stored_rows(folder: Path) -> dict[str, Any]:
    """Return the rows of the checked tables apart from `meta`, and the vectors by image number."""
    with closing(sqlite3.connect(folder / "collection.sqlite")) as database:
        rows = {
            table.name: set(database.execute(f"SELECT * FROM {table.name}"))
            for table in CHECKED
            if table not in (meta, vectors)
        }
        stored = database.execute("SELECT number, vector FROM vectors ORDER BY number").fetchall()
    return rows | {"vectors": {number: np.frombuffer(vector, "<f4") for number, vector in stored}}


def differing_tables(sound: dict[str, Any], repaired: dict[str, Any]) -> list[str]:
    """Return the tables whose rows differ; vectors from a snapshot may differ by rounding."""
    names = [name for name in sound if name != "vectors" and sound[name] != repaired[name]]
    left, right = sound["vectors"], repaired["vectors"]
    same = left.keys() == right.keys() and all(
        np.allclose(left[number], right[number], 1e-4, 1e-4) for number in left
    )
    return names if same else [*names, "vectors"]


def run(arguments: list[str]) -> tuple[str, str]:
    """Run a command in this process; return "exit CODE" or "traceback", and what it printed."""
    sys.argv = ["cbir", *arguments]
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            run_command()
        except SystemExit as ended:
            return f"exit {ended.code}", printed.getvalue()
        except BaseException:
            return "traceback", traceback.format_exc()
    return "exit 0", printed.getvalue()


def work(folder: Path, image_id: str, results: Connection) -> None:
    """Run everything on one damaged collection and send the results."""
    found: dict[str, Any] = {}
    try:
        found["answers"] = answers(folder)
    except BaseException:
        found["answers"] = "traceback", traceback.format_exc()
    at = ["--collection", str(folder)]
    found["verify"] = run(["collection", "verify", *at])
    found["info"] = run(["collection", "info", *at])
    found["search"] = run(["search", f"id:{image_id}", "--rerank", "none", "--format", "json", *at])
    found["compact"] = run(["collection", "compact", *at])
    found["repair"] = run(["collection", "verify", "--repair", *at])
    if found["repair"][0] == "exit 0" and "not restored" not in found["repair"][1]:
        found["repaired rows"] = stored_rows(folder)
    results.send(found)


def examine(folder: Path, image_id: str) -> dict[str, Any]:
    """Run `work` in a process, which damage may crash."""
    reading, writing = get_context("fork").Pipe(duplex=False)
    process = get_context("fork").Process(target=work, args=(folder, image_id, writing))
    process.start()
    writing.close()
    try:
        return dict(reading.recv()) if reading.poll(SECONDS) else {"answers": ("too slow", "")}
    except EOFError:
        return {"answers": ("crash", "")}
    finally:
        process.kill()
        process.join()
        reading.close()


@patch.object(snapshot_build, "CODES_FROM", 1)
def campaign(count: int, seed: int, images: int, files: Sequence[str] = MOSTLY_DATABASE) -> dict[str, Any]:
    """Damage one of the `files` in each of `count` copies; return counts, and the text of each failure."""
    faiss.omp_set_num_threads(1)  # else a process that is forked waits for threads that it has not
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        sound = Path(scratch) / "sound"
        make_collection(sound, images)
        state, expected = answers(sound)
        assert state == "sound"
        image_id, rows = expected[0][0][0], stored_rows(sound)
        for number in range(count):
            choose = random.Random(seed * 1_000_000 + number)
            folder = Path(scratch) / f"copy-{number}"
            shutil.copytree(sound, folder)
            kind = damage(folder, choose, files)
            found = examine(folder, image_id)
            repaired = found.pop("repaired rows", None)
            if repaired is not None and (tables := differing_tables(rows, repaired)):
                outcomes["repaired wrongly"] += 1
                failures.append(f"{number} {kind}: {', '.join(tables)} differ after the repair")
            outcomes["all rows as before after the repair"] += repaired is not None
            state, hits = found["answers"]
            if state == "sound" and hits != expected:
                outcomes["wrong answers without a word"] += 1
                failures.append(f"{number} {kind}: wrong answers")
            outcomes[f"opened: {state}"] += 1
            for command, (outcome, text) in found.items():
                if command != "answers":
                    outcomes[f"{command}: {outcome}"] += 1
                if outcome in ("traceback", "crash", "too slow") or "Traceback" in str(text):
                    failures.append(f"{number} {kind}: {command}: {outcome}\n{text}")
            shutil.rmtree(folder)
    return {"damages": count, "outcomes": dict(sorted(outcomes.items())), "failures": failures}


def print_flips(count: int, seed: int) -> None:
    """Print what became of single flipped bits, and end; exit code 1 if one was silent."""
    with tempfile.TemporaryDirectory() as scratch:
        result = flip_campaign(Path(scratch), count, seed)
    for (name, outcome), number in sorted(result["outcomes"].items()):
        print(f"{number:6} {outcome:16} {name}")
    for line in result["silent"]:
        print(line)
    print(json.dumps({"bench": "damage", "flips": count, "silent": len(result["silent"])}))
    sys.exit(1 if result["silent"] else 0)


def main() -> None:
    """Print counts, failures and one JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--flips", type=int, default=0)
    parser.add_argument(
        "--files", nargs="+", choices=["collection.sqlite", *SUFFIXES], default=MOSTLY_DATABASE
    )
    options = parser.parse_args()
    if options.flips:
        print_flips(options.flips, options.seed)
    result = campaign(options.count, options.seed, options.images, options.files)
    for outcome, number in result["outcomes"].items():
        print(f"{number:6} {outcome}")
    for failure in result["failures"]:
        print(failure)
    print(json.dumps({"bench": "damage", **result, "failures": len(result["failures"])}))
    sys.exit(1 if result["failures"] else 0)


if __name__ == "__main__":
    main()
