"""Decode, describe and record images: the one path into a collection."""
