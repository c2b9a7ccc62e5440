"""Boxes: a baseline sealed in a container or environment, and the host's end of its pipe."""
