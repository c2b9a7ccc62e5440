"""Stage 2: judges, the instruments that grade records."""
