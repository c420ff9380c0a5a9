"""Make the parts of bench/kills.py and bench/faults.py importable."""

import sys

from tests.benches import FOLDER

sys.path.insert(0, str(FOLDER))
