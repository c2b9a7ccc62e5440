"""The ``memrig`` command. One module a verb. Parses, calls ``harness``, prints. No logic."""
