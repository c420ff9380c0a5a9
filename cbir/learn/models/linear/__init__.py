"""Linear and kernel ranking functions on feature vectors, with the helpers they share; needs no torch."""
