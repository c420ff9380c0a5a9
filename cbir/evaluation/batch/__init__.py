"""Search with many images in one run: queries, worker processes, files of answers."""
