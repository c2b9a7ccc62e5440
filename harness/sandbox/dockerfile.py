"""The Dockerfiles that memrig writes. Text in, text out; the classic builder's subset only.

A baseline's image has a head and a tail. The head is the baseline's own ``Dockerfile`` where it has
one (``ARG BASE_IMAGE`` and ``FROM ${BASE_IMAGE}`` first, the folder's files at ``box/baseline/``
in the context), else two lines. The tail is always memrig's: it installs the lock into
``/opt/venv``, lays the tree into ``/opt/memrig``, checks the whole and sets user and command.

No line holds a secret: addresses have no credentials, and the CA file is a certificate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.outcomes import BuildError
from harness.settings import NO_INDEX

#: Who a box runs as. A number, so that no image needs an entry in its user table.
UID = 10001

_FROM = re.compile(
    r"(?im)^[ \t]*FROM[ \t]+(?:--platform=\S+[ \t]+)?\S+(?:[ \t]+AS[ \t]+(\S+))?[ \t]*$"
)
_ENV = {
    "PATH": "/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "1",
    "PYTHONNOUSERSITE": "1",
    "TZ": "UTC",
    "LANG": "C.UTF-8",
    "HOME": "/state",
}

#: Ends a stage that is copied from and then not needed; the build's hash finds it again.
_STAGE = ["ARG MEMRIG_HASH", "LABEL memrig.stage=${MEMRIG_HASH}"]


@dataclass(frozen=True)
class Install:
    """How packages are installed: from where, and what may be built from source.

    ``ca``: a CA bundle lies in the context as ``build/ca.pem``. ``wheels``: wheels lie in
    ``build/wheels``.
    """

    package_index: str | None = None
    extra_index: tuple[str, ...] = ()
    ca: bool = False
    wheels: bool = False
    sdist_allowed: tuple[str, ...] = ()

    def pip(self, *what: str) -> str:
        """A ``RUN`` line in its list form, so that no shell reads an address."""
        argv = ["/opt/venv/bin/python", "-m", "pip", "install", "--no-cache-dir", "--no-deps"]
        argv += ["--disable-pip-version-check", "--no-input", "--root-user-action=ignore"]
        argv += ["--cert", "/tmp/build/ca.pem"] if self.ca else []  # noqa: S108  (in the image)
        return run_line([*argv, *binary_only(self.sdist_allowed), *self.where(), *what])

    def where(self) -> list[str]:
        """The flags that tell pip where packages come from."""
        links = ["--find-links", "/tmp/build/wheels"] if self.wheels else []  # noqa: S108
        if self.package_index == NO_INDEX:
            return ["--no-index", *links]
        flags = ["--index-url", self.package_index] if self.package_index else []
        for address in self.extra_index:
            flags += ["--extra-index-url", address]
        return [*flags, *links]


def binary_only(sdist_allowed: Sequence[str]) -> list[str]:
    """Flags for pip and uv: wheels only, but for the exceptions."""
    flags = ["--only-binary", ":all:"]
    for name in sdist_allowed:
        flags += ["--no-binary", name]
    return flags


def run_line(argv: list[str]) -> str:
    """``RUN ["a", "b"]``."""
    return f"RUN {json.dumps(argv)}"


def plain_layer() -> str:
    """The layer under every image: a virtual environment and the box's state folder."""
    return "\n".join(
        [
            "ARG BASE_IMAGE",
            "FROM ${BASE_IMAGE}",
            "USER 0",
            run_line(["python3", "-m", "venv", "/opt/venv"]),
            f"RUN mkdir -p /state /opt/memrig && chown {UID}:{UID} /state",
            "",
        ]
    )


def torch_layer(requirement: str, install: Install, index: str | None) -> str:
    """The plain layer with the CPU build of PyTorch in a folder of its own beside the venv.

    Apart from the venv, so that an image that has to copy its venv between stages does not copy
    PyTorch with it. The wheel itself stays in the first stage.
    """
    source = ["--index-url", index] if index else ["--no-index"]
    target = ["--target", "/opt/torch", *source, requirement]
    link = (
        "import site, pathlib; "
        "pathlib.Path(site.getsitepackages()[0], 'memrig-torch.pth').write_text('/opt/torch\\n')"
    )
    return "\n".join(
        [
            "ARG BASE_IMAGE",
            "FROM ${BASE_IMAGE} AS torch",
            "COPY build/ /tmp/build/",
            Install(ca=install.ca, wheels=install.wheels).pip(*target),
            *_STAGE,
            "FROM ${BASE_IMAGE}",
            "COPY --from=torch /opt/torch /opt/torch",
            run_line(["/opt/venv/bin/python", "-c", link]),
            run_line(["/opt/venv/bin/python", "-c", "import importlib.util as u, sys; "
                      "sys.exit(u.find_spec('torch') is None)"]),
            "",
        ]
    )  # fmt: skip


def baseline_image(
    own: str | None,
    install: Install,
    *,
    apt: Sequence[str],
    packages: bool,
    torch: str,
    python_path: Sequence[str],
) -> str:
    """A baseline's Dockerfile: head and tail.

    Raises:
        BuildError: the baseline's own Dockerfile has no ``FROM``.
    """
    head = own.rstrip() if own is not None else "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}"
    lines = ["USER 0"]
    if apt:
        names = " ".join(sorted(apt))
        lines.append(
            "RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y "
            f"--no-install-recommends {names} && rm -rf /var/lib/apt/lists/*"
        )
    steps = _packages(install) if packages else []
    if steps and install.wheels:
        head, name = _named(head)
        lines += [
            f"FROM {name} AS memrig-packages",
            "USER 0",
            *steps,
            *_STAGE,
            f"FROM {name}",
            "USER 0",
            "COPY --from=memrig-packages /opt/venv /opt/venv",
        ]
        # What apt put into the head stage is in both, since both start from it.
    else:
        lines += steps
    return "\n".join([head, *lines, *_tail(torch, python_path), ""])


def _packages(install: Install) -> list[str]:
    lock = "/tmp/build/requirements.lock"  # noqa: S108  (in the image)
    check = ["/opt/venv/bin/python", "-m", "pip", "check", "--disable-pip-version-check"]
    return [
        "COPY build/ /tmp/build/",
        install.pip("--require-hashes", "-r", lock),
        run_line(check),
        "RUN rm -rf /tmp/build",
    ]


def _tail(torch: str, python_path: Sequence[str]) -> list[str]:
    places = ["/opt/memrig", "/opt/memrig/baseline"]
    places += [f"/opt/memrig/{place}" for place in python_path]
    env = {**_ENV, "PYTHONPATH": ":".join(places)}
    check = ["/opt/venv/bin/python", "/opt/memrig/boxcheck.py", "/opt/memrig", torch]
    return [
        "COPY box/ /opt/memrig/",
        "ENV " + " ".join(f"{name}={json.dumps(value)}" for name, value in env.items()),
        run_line(check),
        f"RUN mkdir -p /state && chown {UID}:{UID} /state",
        f"USER {UID}:{UID}",
        "WORKDIR /state",
        "ENTRYPOINT []",
        f"CMD {json.dumps(['/opt/venv/bin/python', '-m', 'harness.adapter.serve'])}",
    ]


def _named(head: str) -> tuple[str, str]:
    """Give the head's last stage a name, if it has none; returns text and name."""
    stages = list(_FROM.finditer(head))
    if not stages:
        raise BuildError("the baseline's Dockerfile has no FROM line")
    last = stages[-1]
    if last.group(1):
        return head, last.group(1)
    end = last.end()
    return head[:end].rstrip() + " AS memrig-head" + head[end:], "memrig-head"
