"""How a variant's data becomes something that runs: exporters, files kept by content, sessions, quantisers."""
