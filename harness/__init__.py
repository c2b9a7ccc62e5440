"""memrig's library: a containerized, reproducible benchmark of long-term-memory systems.

The parts and the arrows between them are drawn in the README ("How it is built"); a test
(``tests/test_architecture.py``) holds the arrows.
"""

__version__ = "0.1.0"
