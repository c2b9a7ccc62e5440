"""Tables of aggregated runs."""
