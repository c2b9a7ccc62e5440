"""Models: routes, the gateway in front of them, and what was recorded of them.

``load_setup`` reads ``memrig.toml`` and ``.env``; a ``Backend`` holds what runs share; a
``Gateway`` serves one run: ``Gateway.for_box`` is the model port of a box, ``Gateway.client`` the
host's own way in.
"""
