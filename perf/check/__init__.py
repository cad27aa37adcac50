"""Checks: values with reasons; no asserts, no pytest."""
