"""Searching on a graphics processor: the vectors of a collection stay there, and what a query needs comes back.

torch and FAISS are imported only where they are asked for: `import cbir.gpu` costs nothing.
"""
