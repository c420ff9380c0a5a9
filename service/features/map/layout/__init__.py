"""Maps of a collection: its images in two dimensions, similar ones close together."""
