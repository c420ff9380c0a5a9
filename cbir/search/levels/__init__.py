"""Hits by series, study or instance."""
