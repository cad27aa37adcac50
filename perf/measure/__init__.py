"""Clocks and machines: one protocol a way of measuring."""
