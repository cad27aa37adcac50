"""Noise between runs, and verdicts: what a row says beside its baseline."""
