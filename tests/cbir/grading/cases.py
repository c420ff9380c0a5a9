"""Graded cases whose order is known, for the tests of grading."""

import numpy as np


def drawn(count=120, dimensions=6, levels=4, noise=0.5, seed=0):
    """Features (n, d), grades (n,) from 1 and patients (n,), two images each."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(count, dimensions)) * random.uniform(0.1, 50, dimensions) + 7
    severity = (X - X.mean(0)) / X.std(0) @ np.linspace(1, -0.3, dimensions)
    severity += noise * random.normal(size=count)
    cuts = np.quantile(severity, np.linspace(0, 1, levels + 1)[1:-1])
    return X, 1.0 + np.searchsorted(cuts, severity), np.arange(count) // 2
