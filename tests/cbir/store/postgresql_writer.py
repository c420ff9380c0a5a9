"""Adds images to the collection with an address, one after the other, and prints the number of each."""

import sys

from cbir.store import Collection
from cbir.store.postgresql.postgresql_address import files_folder
from tests.cbir.store.conftest import entry

if __name__ == "__main__":
    address, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with Collection(files_folder(address)) as collection, collection.writer() as writer:
        for number in range(first, last):
            (stored,) = writer.add([entry(number)]).numbers.values()
            print(number, stored, flush=True)
