"""What others claim of optimised models, answered from recorded runs. Knows no core by name: the claims are data."""
