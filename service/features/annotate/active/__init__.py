"""Active learning of severity: pair selection, studies with people, and simulations."""
