"""The half of memrig that also runs inside every box.

Standard library only, Python 3.9 or later, and no import of anything else in ``harness``:
this folder is copied into every image as it stands.
"""
