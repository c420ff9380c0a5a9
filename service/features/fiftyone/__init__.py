"""Export of a collection to FiftyOne."""
