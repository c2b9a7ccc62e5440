"""A baseline of a few lines with one dependency, both made here: nothing is fetched."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

DEPENDENCY = "memrig-tiny-dep"

ADAPTER = '''
import os, socket, sys
import tiny_dep
from harness.adapter.contract import MemoryAdapter
from harness.adapter.records import MemorySnapshotRecord, RetrievalRecord

def reach(address):
    try:
        socket.create_connection(address, timeout=3).close()
        return "reached"
    except OSError as error:
        return f"refused: {error}"

class Adapter(MemoryAdapter):
    """Remembers nothing; its snapshot says what the box is like."""

    def reset(self): pass
    def ingest_turn(self, turn): pass
    def end_session(self, session_id): pass
    def retrieve(self, query, top_k): return RetrievalRecord()
    def get_capabilities(self): return {}
    def snapshot_memories(self):
        listener = socket.create_server(("127.0.0.1", 0))
        facts = {
            "dep": tiny_dep.ANSWER,
            "cwd": os.getcwd(),
            "home": os.environ["HOME"],
            "env": ",".join(sorted(os.environ)),
            "path": os.pathsep.join(sys.path),
            "loopback": reach(listener.getsockname()),
            "outside": reach(("192.0.2.1", 9)),
            "interfaces": ",".join(name for _, name in socket.if_nameindex()),
        }
        return [MemorySnapshotRecord(key, value) for key, value in facts.items()]
'''

YAML = """
name: Tiny
summary: A baseline for tests.
limits: {memory_mb: 256, start_s: 60, call_s: 30}
"""


def write_baseline(parent: Path, lock: str = "", yaml: str = YAML, name: str = "Tiny") -> Path:
    """A baseline's folder; without a lock the adapter does without its dependency."""
    folder = parent / name
    folder.mkdir(parents=True)
    adapter = ADAPTER if lock else ADAPTER.replace("import tiny_dep", "class tiny_dep: ANSWER = ''")
    (folder / "adapter.py").write_text(adapter)
    (folder / "baseline.yaml").write_text(yaml)
    (folder / "requirements.lock").write_text(lock)
    return folder


def write_wheel(folder: Path, requires: str | None = None) -> str:
    """Write the dependency's wheel; returns the lock that names it by hash."""
    folder.mkdir(parents=True, exist_ok=True)
    name = "memrig_tiny_dep-1.0"
    files = {
        "tiny_dep.py": "ANSWER = 'forty-two'\n",
        f"{name}.dist-info/METADATA": (
            f"Metadata-Version: 2.1\nName: {DEPENDENCY}\nVersion: 1.0\n"
            + (f"Requires-Dist: {requires}\n" if requires else "")
        ),
        f"{name}.dist-info/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = "".join(f"{path},{_digest(text)},{len(text)}\n" for path, text in files.items())
    files[f"{name}.dist-info/RECORD"] = record + f"{name}.dist-info/RECORD,,\n"
    wheel = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return f"{DEPENDENCY}==1.0 \\\n    --hash=sha256:{digest}\n"


def _digest(text: str) -> str:
    raw = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
