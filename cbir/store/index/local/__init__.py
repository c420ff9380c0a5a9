"""FAISS indexes in files of a collection's folder."""
