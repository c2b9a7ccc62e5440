"""`make perf`: speed and size as ratios of two things measured in one run. Not part of memrig."""
