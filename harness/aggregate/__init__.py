"""Stage 3: the six dimensions and their statistics, from records alone."""
