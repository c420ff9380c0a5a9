"""Parts of bench/kills.py and bench/faults.py."""
