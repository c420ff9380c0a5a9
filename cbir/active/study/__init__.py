"""A study: people compare the images of a collection in rounds, and a ranker learns from it in between."""
