"""Cohorts of the service: who may see them, the next images to judge, erasing."""
