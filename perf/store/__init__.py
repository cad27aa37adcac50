"""Rows and baselines on disk, as pytest-benchmark JSON."""
