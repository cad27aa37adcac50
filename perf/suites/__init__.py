"""The checks and benchmarks over the whole catalogue, thin: one file a question."""
