"""IRMA benchmark: hierarchical code error, answers by neighbour votes, submissions."""
