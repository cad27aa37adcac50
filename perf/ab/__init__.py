"""Two versions beside each other on one machine, without a baseline: `python -m perf ab`.

command → origin (where each side's code lies) → worker (its process) ⇄ side, bench (inside that process)
                → compare (restarts and looks) → interleave (one restart) → paired (the word) → table
"""

PROTOCOL = 1
"""Of the lines between `worker` and `side`, whose revisions may differ. It grows when a field changes its meaning."""
