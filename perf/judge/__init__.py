"""Verdicts: what a row says beside its baseline."""
