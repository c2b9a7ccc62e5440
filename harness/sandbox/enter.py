"""The first program of a venv box: ``python enter.py none|host PROGRAM ARG...``.

Goes to the box's state folder, leaves the host's network if asked to (``none``), and becomes the
program. Leaving means a user and a network namespace of its own with nothing but the loopback in
it (the box's model relay listens there); Linux, no root needed. Exits 97 and says why where the
kernel does not allow it. Standard library only.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

REFUSED = 97

_NEW_USER = 0x10000000
_NEW_NET = 0x40000000
_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_UP = 0x1


def main(network: str, argv: list[str]) -> None:
    """Prepare this process, then become ``argv``."""
    state = os.environ.get("MEMRIG_STATE_DIR")
    if state:
        os.chdir(state)
    if network == "none":
        try:
            isolate()
        except OSError as error:
            sys.stderr.write(f"enter: no network namespace: {error.strerror or error}\n")
            sys.exit(REFUSED)
    os.execv(argv[0], argv)  # noqa: S606  (becoming the program is the point)


def isolate() -> None:
    """Leave the host's network.

    Raises:
        OSError: the kernel does not allow it.
    """
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_USER | _NEW_NET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{uid} {uid} 1")
    (own / "gid_map").write_text(f"{gid} {gid} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        flags = struct.unpack("16sH14s", fcntl.ioctl(handle, _GET_FLAGS, request))[1]
        fcntl.ioctl(handle, _SET_FLAGS, struct.pack("16sH14s", b"lo", flags | _UP, b""))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
