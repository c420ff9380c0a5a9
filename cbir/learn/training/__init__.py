"""Training of embeddings, rankers and sorters; needs the extra `deep`."""
