"""Cohorts: all images of a kind, found in rounds of judgements, with an estimate of how many are missing."""
