"""Studies: people compare images of a collection in rounds, and a ranker is trained in between."""
