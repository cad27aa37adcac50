"""The proof: how often the gate cries wolf, and what it catches, computed from recorded runs beside other rules."""
