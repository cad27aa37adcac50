"""The proof of `python -m perf ab`: restarts recorded once, and its own rule replayed on them.

record → side, bench (inside each process) → records; replay → spread → report
"""
