"""Pairs to Label Studio, and its answers back."""
