"""Active learning of severity: pair selection, strategies, and simulations."""
