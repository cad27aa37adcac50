"""Variant families: one file each, VARIANTS = [...]."""
