"""What a person reads: text out of rows, reports and verdicts."""
