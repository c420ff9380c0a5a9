"""Searching on a GPU: a PyTorch backend of the re-rankers, and FAISS indexes.

torch is imported only when a GPU is used: `import cbir.gpu` costs nothing.
"""
