"""The cassette and the ledger: kills, full disks, other versions, many processes, exports."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from harness.models.canonical import canonical
from harness.models.cassette import Cassette, Place, Recorded
from harness.models.ledger import Ledger, read_rows, unfinished
from harness.models.policy import Request, admit
from harness.models.redact import Redactor
from harness.models.store import CassetteError, CassetteFull, Store
from harness.models.usage import Tokens
from harness.outcomes import ModelFailure, RunError
from models.rig import KEY, chat, embed, finished, gateway_over, route_to, said, setup_for
from models.scripted import ScriptedServer

RECORDER = Path(__file__).with_name("recorder.py")


def recorder(server: ScriptedServer, folder: Path, run: str, text: str, count: int) -> Any:
    command = [sys.executable, str(RECORDER), server.url, str(folder), run, text, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_kill_9_while_recording_loses_nothing_that_was_sent(tmp_path: Path) -> None:
    with ScriptedServer(key=KEY, counter=True, latency_s=0.005) as server:
        sent: dict[str, str] = {}
        for round_no in range(3):
            process = recorder(server, tmp_path, "r1", f"round {round_no}", 100_000)
            for _ in range(40):
                name, _, text = process.stdout.readline().rstrip("\n").partition("\t")
                sent[name] = text
            os.kill(process.pid, signal.SIGKILL)
            for line in process.stdout.read().splitlines(keepends=True):
                if line.endswith("\n"):
                    name, _, text = line.rstrip("\n").partition("\t")
                    sent[name] = text
            process.wait()
            process.stdout.close()
    with gateway_over(setup_for(server.url), tmp_path, run="r1") as gateway:
        rows = list(read_rows(gateway.ledger.path))
        ended = [row for row in rows if row["event"] == "finished"]
        assert len({row["call_id"] for row in ended}) == len(ended)
        assert len(unfinished(rows)) <= 8 * 3, "only what was open when it died"
        assert len(ended) >= len(sent)
        assert len(ended) == gateway.backend.cassette.count()
    offline = setup_for(server.url, key=None)
    with gateway_over(offline, tmp_path, mode="replay", run="r2") as gateway:
        box = gateway.for_box("RAG", "s0001")
        for name, text in sent.items():
            assert said(box(chat(name, temperature=0.5))) == text


def test_a_row_that_was_committed_and_not_copied_is_copied_later(
    server: ScriptedServer, tmp_path: Path
) -> None:
    setup = setup_for(server.url)
    with gateway_over(setup, tmp_path) as gateway:
        gateway.for_box("RAG", "s0001")(chat())
        path = gateway.ledger.path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][: len(lines[1]) // 2])  # killed while writing the second
    with gateway_over(setup, tmp_path) as gateway:
        row = finished(gateway)[0]
        assert row["recovered"] is True
        assert gateway.budget.spent("r1").calls == 1, "once, not as an orphan as well"
    with gateway_over(setup, tmp_path) as gateway:
        assert len(finished(gateway)) == 1


def test_processes_share_a_cassette_and_agree(tmp_path: Path) -> None:
    """The same draws by four processes at once: whoever is second goes on with the first's."""
    with ScriptedServer(key=KEY, counter=True) as server:
        processes = [recorder(server, tmp_path, f"r{n}", "same", 40) for n in range(4)]
        outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    said_by = [dict(line.split("\t") for line in output.splitlines()) for output in outputs]
    assert len(said_by[0]) == 40
    assert said_by[0] == said_by[1] == said_by[2] == said_by[3]


def test_a_full_disk_is_said_by_name_and_nothing_is_lost(
    server: ScriptedServer, tmp_path: Path
) -> None:
    setup = setup_for(server.url)
    with gateway_over(setup, tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        before = [said(box(chat(f"kept {n}"))) for n in range(3)]
        gateway.backend.cassette._store.limit_pages(20)
        with pytest.raises(ModelFailure) as full:
            for n in range(200):
                box(chat(f"noise {n} " + " ".join(os.urandom(2_000).hex())))
        assert full.value.kind == "STORE_FULL"
        assert "Free some space" in full.value.message
        asked = server.count()
        with pytest.raises(ModelFailure) as again:
            box(chat("one more"))
        assert again.value.kind == "STORE_FULL"
        assert server.count() == asked, "nothing is paid for that cannot be kept"
        assert gateway.fatal is not None
    with gateway_over(setup, tmp_path, run="r2") as gateway:
        box = gateway.for_box("RAG", "s0001")
        assert [said(box(chat(f"kept {n}"))) for n in range(3)] == before
        assert server.count() == asked


def test_a_file_that_may_not_grow_any_more(tmp_path: Path) -> None:
    """The system's own limit on the size of files, as a quota has it, in a process of its own."""
    script = (
        "import sys, os, resource, signal\n"
        "from pathlib import Path\n"
        "from harness.models.store import Store, CassetteFull\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "store = Store(Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))\n"
        "kept = 0\n"
        "try:\n"
        "    for n in range(1000):\n"
        "        store.commit([('INSERT INTO facts VALUES (?, ?, ?, ?)',"
        " ('r', 'm', str(n), os.urandom(4000).hex()))])\n"
        "        kept += 1\n"
        "except CassetteFull as full:\n"
        "    print(kept, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "tape.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    kept = int(done.stdout)
    assert kept > 5
    store = Store(path)
    assert store.rows("SELECT count(*) FROM facts") == [(kept,)]
    store.close()


def test_a_ledger_that_may_not_grow_keeps_whole_rows(tmp_path: Path) -> None:
    script = (
        "import sys, resource, signal\n"
        "from pathlib import Path\n"
        "from harness.models.ledger import Ledger\n"
        "from harness.models.redact import Redactor\n"
        "from harness.models.failures import StoreFull\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "ledger = Ledger(Path(sys.argv[1]), Redactor())\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY))\n"
        "try:\n"
        "    for n in range(100):\n"
        "        row = {'event': 'started', 'call_id': str(n), 'x': 'y' * 100}\n"
        "        ledger.write(ledger.row(row))\n"
        "except StoreFull as full:\n"
        "    print(n)\n"
    )
    path = tmp_path / "calls.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert len(list(read_rows(path))) == int(done.stdout) > 3


def test_another_version_and_other_files_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "tape.sqlite"
    Cassette(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    for read_only in (False, True):
        with pytest.raises(CassetteError, match=r"schema version 7.*reads version 1"):
            Cassette(path, read_only=read_only)
    path.write_text("this is a text, and a long one, so that it has a header's worth of bytes " * 9)
    with pytest.raises(CassetteError, match="not a cassette"):
        Cassette(path)
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other (x)")
    connection.commit()
    connection.close()
    with pytest.raises(CassetteError, match="not a cassette of memrig"):
        Cassette(path)
    with pytest.raises(CassetteError, match="there is no cassette"):
        Cassette(tmp_path / "nowhere.sqlite", read_only=True)


def test_many_threads_commit_together_and_each_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "tape.sqlite")

    def write(who: int) -> None:
        for n in range(25):
            store.commit([("INSERT INTO facts VALUES (?, ?, ?, 'v')", ("r", str(who), str(n)))])

    threads = [threading.Thread(target=write, args=(who,)) for who in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.rows("SELECT count(*) FROM facts") == [(400,)]
    # One that is wrong takes no other with it.
    with pytest.raises(CassetteError):
        store.commit([("INSERT INTO facts VALUES ('r', '0', '0', 'again')", ())])
    assert not isinstance(CassetteError("x"), CassetteFull)
    store.close()


def test_info_and_export(server: ScriptedServer, tmp_path: Path) -> None:
    setup = setup_for(server.url)
    for run, text in (("r1", "one"), ("r2", "two")):
        with gateway_over(setup, tmp_path, run=run) as gateway:
            box = gateway.for_box("RAG", "s0001")
            with box.during("end_session"):
                box(chat(text))
                box(embed("shared by both"))
    cassette = Cassette(tmp_path / "tape.sqlite", read_only=True)
    info = cassette.info()
    assert info["replies"] == 3
    assert [entry["run"] for entry in info["runs"]] == ["r1", "r2"]
    assert {(m["path"], m["replies"]) for m in info["models"]} == {
        ("/embeddings", 1),
        ("/chat/completions", 2),
    }
    target = tmp_path / "r2.sqlite"
    assert cassette.export(target, "r2") == 2
    with pytest.raises(CassetteError, match="exists"):
        cassette.export(target, "r2")
    with pytest.raises(CassetteError, match="no call of the run"):
        cassette.export(tmp_path / "x.sqlite", "r9")
    cassette.close()
    assert KEY.encode() not in target.read_bytes()
    target.chmod(0o444)
    offline = setup_for(server.url, key=None)
    with gateway_over(offline, tmp_path, mode="replay", run="r3", tape=target) as gateway:
        box = gateway.for_box("RAG", "s0001")
        with box.during("end_session"):
            assert said(box(chat("two")))
            assert box(embed("shared by both"))["status"] == 200
            with pytest.raises(ModelFailure, match="not in"):
                box(chat("one"))
    assert sorted(path.name for path in tmp_path.glob("r2.sqlite*")) == ["r2.sqlite"]


def test_the_second_to_commit_a_key_gets_the_first_reply(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "tape.sqlite")
    body = {"model": "gpt-test", "messages": []}
    admitted = admit(Request("openai", "POST", "/chat/completions", body), route_to("http://x/v1"))
    request = canonical(admitted, "s1")
    line = {"call_id": "a", "at": "2026-01-01T00:00:00+00:00", "event": "finished"}
    for text in ("first", "second"):
        reply = Recorded(200, {"text": text}, Tokens(1, 2), 5.0, None, None)
        kept = cassette.record(
            request, 0, reply, {**line, "call_id": text}, Place("r", "RAG", "s1"), 1
        )
        assert kept.body == {"text": "first"}
    assert [row["call_id"] for row in cassette.lines_of("r")] == ["first", "second"]
    cassette.close()


def test_a_ledger_that_is_damaged_inside_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"event": "started", "call_id": "a"}\nnonsense\n{"event": "x"}\n')
    with pytest.raises(RunError, match=r"calls\.jsonl:2 is damaged"):
        Ledger(path, Redactor())


def test_a_ledger_tells_whoever_listens(tmp_path: Path) -> None:
    heard: list[Any] = []
    ledger = Ledger(tmp_path / "calls.jsonl", Redactor(["top secret"]), listen=heard.append)
    ledger.write(ledger.row({"event": "started", "call_id": "a", "why": "a top secret thing"}))
    ledger.close()
    assert heard[0]["why"] == "a *** thing"
    assert time.strptime(heard[0]["at"][:10], "%Y-%m-%d")
