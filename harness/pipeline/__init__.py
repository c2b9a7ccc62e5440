"""Stage 1: feed samples to boxes, look at what they stored, ask the questions."""
