"""Boxes: a baseline sealed in a container or an environment of its own, and the host's end of its pipe."""
