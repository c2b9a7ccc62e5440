"""A process that records as fast as it can, says what it was sent, and is killed at some moment.

Run as ``python recorder.py URL FOLDER RUN TEXT COUNT``. Each reply that the gateway handed out is
printed as one line: key and text.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from models.rig import chat, gateway_over, said, setup_for


def main(url: str, folder: str, run: str, text: str, count: str) -> None:
    with gateway_over(setup_for(url), Path(folder), run=run) as gateway:
        box = gateway.for_box("RAG", "s0001")

        def one(n: int) -> None:
            reply = box(chat(f"{text} {n}", temperature=0.5))
            sys.stdout.write(f"{text} {n}\t{said(reply)}\n")
            sys.stdout.flush()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(one, range(int(count))))


if __name__ == "__main__":
    main(*sys.argv[1:])
