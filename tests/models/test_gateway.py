"""The gateway over a scripted server: what is sent, recorded, shared, counted, and replayed."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from harness.models.cassette import Cassette
from harness.models.gateway import Gateway
from harness.models.ledger import read_rows
from harness.models.rows import totals_of
from harness.models.setup import replay_setup
from harness.outcomes import ModelFailure, UsageError
from models.rig import (
    KEY,
    chat,
    embed,
    everything_in,
    finished,
    gateway_over,
    said,
    setup_for,
)
from models.scripted import Family, ScriptedServer


def test_chat_embeddings_and_responses_go_through(server: ScriptedServer, tmp_path: Path) -> None:
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        with box.during("end_session", "S01") as report:
            assert said(box(chat("remember Tim"))).startswith("reply ")
            vectors = box(embed("a", "b"))["body"]["data"]
            body = {"model": "gpt-test", "input": "hi"}
            params = {"route": "openai", "method": "POST", "path": "/responses", "body": body}
            assert box(params)["body"]["output"][0]["content"][0]["text"]
        assert [len(entry["embedding"]) for entry in vectors] == [8, 8]
        assert report.calls == 3
        assert report.failed == 0
        rows = finished(gateway)
    assert [row["stage"] for row in rows] == ["end_session"] * 3
    assert [row["role"] for row in rows] == ["system", "embed", "system"]
    assert rows[0]["session"] == "S01"
    assert rows[0]["model_asked"] == "gpt-test"
    assert rows[0]["model_reported"] == "gpt-test-scripted"
    assert sum(row["tokens"]["prompt"] for row in rows) == server.tokens["prompt"]
    assert sum(row["tokens"]["completion"] for row in rows) == server.tokens["completion"]
    assert not any(row["tokens"]["estimated"] for row in rows)


def test_a_started_row_precedes_the_upstream(server: ScriptedServer, tmp_path: Path) -> None:
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        server.fail("hang")
        thread = threading.Thread(target=box, args=(chat(),))
        thread.start()
        while not server.requests:
            threading.Event().wait(0.01)
        rows = list(read_rows(gateway.ledger.path))
        assert [row["event"] for row in rows] == ["started"]
        assert rows[0]["reserved"]["calls"] == 1
        server.released.set()
        thread.join()


def test_the_list_of_models_is_answered_without_an_upstream(
    server: ScriptedServer, tmp_path: Path
) -> None:
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        reply = box({"route": "openai", "method": "GET", "path": "/v1/models", "body": None})
    assert [entry["id"] for entry in reply["body"]["data"]] == ["gpt-test", "embed-test"]
    assert server.requests == []


def test_deterministic_requests_that_are_open_at_once_are_sent_once(
    server: ScriptedServer, tmp_path: Path
) -> None:
    server.latency_s = 0.2
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        with box.during("end_session"), ThreadPoolExecutor(16) as pool:
            cold = list(pool.map(box, [chat(temperature=0)] * 16))
            vectors = list(pool.map(box, [embed("x")] * 16))
        assert server.count("/chat/completions") == 1
        assert server.count("/embeddings") == 1
        assert all(reply["body"] == cold[0]["body"] for reply in cold)
        assert all(reply["body"] == vectors[0]["body"] for reply in vectors)
        rows = finished(gateway)
    assert sorted(row["cache"] for row in rows[:16]) == ["miss"] + ["shared"] * 15
    assert sum(row["billed_usd"] or 0 for row in rows) == sum(
        row["billed_usd"] or 0 for row in rows if row["cache"] == "miss"
    )


@pytest.mark.parametrize("fields", [{}, {"temperature": None}, {"temperature": 0.7}])
def test_draws_are_never_shared(fields: dict[str, object], tmp_path: Path) -> None:
    with ScriptedServer(counter=True, latency_s=0.05) as server:
        with gateway_over(setup_for(server.url), tmp_path) as gateway:
            box = gateway.for_box("RAG", "s0001")
            with ThreadPoolExecutor(8) as pool:
                texts = {said(reply) for reply in pool.map(box, [chat(**fields)] * 8)}
        assert len(texts) == 8
        assert server.count() == 8


def test_ten_repeats_and_ten_votes_are_distinct_and_replay(tmp_path: Path) -> None:
    with ScriptedServer(key=KEY, counter=True) as server:
        setup = setup_for(server.url)
        with gateway_over(setup, tmp_path) as gateway:
            box = gateway.for_box("RAG", "s0001")
            repeats = [said(box(chat("draw"))) for _ in range(10)]
            judge = gateway.client("judge", "RAG")
            votes = [
                judge.unit("s0001", vote).chat([_user("grade")], temperature=0).text
                for vote in range(10)
            ]
    assert len(set(repeats)) == len(set(votes)) == 10
    offline = setup_for(server.url, key=None)
    with gateway_over(offline, tmp_path, mode="replay", run="r2") as gateway:
        box = gateway.for_box("RAG", "s0001")
        assert [said(box(chat("draw"))) for _ in range(10)] == repeats
        judge = gateway.client("judge", "RAG")
        assert votes == [
            judge.unit("s0001", vote).chat([_user("grade")], temperature=0).text
            for vote in range(10)
        ]
        with pytest.raises(ModelFailure, match=r"10 draw.*number 11"):
            box(chat("draw"))


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_record_then_replay_is_equal_offline_without_a_key(tmp_path: Path) -> None:
    def life(gateway: object) -> list[object]:
        box = gateway.for_box("RAG", "s0001")  # type: ignore[attr-defined]
        got = []
        for session in range(3):
            with box.during("ingest_turns", f"S{session}"):
                got += [box(chat(f"turn {session}", temperature=0.7))["body"] for _ in range(2)]
            with box.during("end_session", f"S{session}"):
                got += [box(embed(f"fact {session}", "same"))["body"]]
                got += [box(chat("summarise", temperature=0))["body"]]
        return got

    with ScriptedServer(key=KEY, counter=True) as server:
        setup = setup_for(server.url)
        with gateway_over(setup, tmp_path) as gateway:
            recorded = life(gateway)
            rows = finished(gateway)
    offline = setup_for(server.url, key=None)
    with gateway_over(offline, tmp_path, mode="replay", run="r2") as gateway:
        assert life(gateway) == recorded
        replayed = finished(gateway)
    for before, after in zip(rows, replayed, strict=True):
        for name in ("key", "stage", "session", "call_no", "rank", "tokens", "list_usd"):
            assert before[name] == after[name]
        assert before["upstream_ms"] == after["upstream_ms"], "latency is the first time's"
        assert after["billed_usd"] == 0
    assert KEY.encode() not in everything_in(tmp_path)


def test_a_resumed_attempt_pays_only_for_what_it_had_not_asked(
    server: ScriptedServer, tmp_path: Path
) -> None:
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        first = gateway.for_box("RAG", "s0001", attempt=1)
        before = [said(first(chat("draw"))) for _ in range(3)]
        again = gateway.for_box("RAG", "s0001", attempt=2)
        after = [said(again(chat("draw"))) for _ in range(5)]
        assert after[:3] == before
        assert server.count() == 5
        totals = totals_of(gateway.ledger.path)["RAG"]
    assert totals["calls"] == 8
    assert totals["cache_hits"] == 3


def test_runs_share_a_cassette_and_other_samples_do_not(
    server: ScriptedServer, tmp_path: Path
) -> None:
    setup = setup_for(server.url)
    with gateway_over(setup, tmp_path, run="r1") as gateway:
        gateway.for_box("RAG", "s0001")(chat(temperature=0))
    with gateway_over(setup, tmp_path, run="r2") as gateway:
        gateway.for_box("Other", "s0001")(chat(temperature=0))
        assert server.count() == 1
        gateway.for_box("Other", "s0002")(chat(temperature=0))
    assert server.count() == 2


def test_live_mode_neither_reads_nor_writes(server: ScriptedServer, tmp_path: Path) -> None:
    with gateway_over(setup_for(server.url), tmp_path, mode="live") as gateway:
        box = gateway.for_box("RAG", "s0001")
        box(chat(temperature=0))
        box(chat(temperature=0))
    assert server.count() == 2
    assert not (tmp_path / "tape.sqlite").exists()


def test_a_miss_shows_the_nearest_request_and_what_differs(
    server: ScriptedServer, tmp_path: Path
) -> None:
    setup = setup_for(server.url)
    long = "The weather in Chengdu was mild. " * 50
    with gateway_over(setup, tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        box(chat("nothing alike", temperature=0))
        box(chat(long + "Today is 2025-01-15.", temperature=0))
    with gateway_over(setup, tmp_path, mode="replay", run="r2") as gateway:
        box = gateway.for_box("RAG", "s0001")
        with pytest.raises(ModelFailure) as miss:
            box(chat(long + "Today is 2025-01-16.", temperature=0))
        assert miss.value.kind == "REPLAY_MISS"
        assert "body.messages[0].content" in miss.value.message
        assert "2025-01-16" in miss.value.message
        assert "2025-01-15" in miss.value.message
        with pytest.raises(ModelFailure, match=r"differs first at sample"):
            gateway.for_box("RAG", "s0009")(chat("nothing alike", temperature=0))
        with pytest.raises(ModelFailure, match="none of its 2 replies"):
            box(embed("x"))
        assert [row["outcome"] for row in finished(gateway)] == ["replay_miss"] * 3
    assert server.count() == 2


def test_replies_are_replayed_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    """Recorded: the third answer came first. Replayed: all are there at once, and still do."""
    delays = {"slow": 0.3, "middle": 0.15, "fast": 0.0}

    def together(box: object) -> list[str]:
        order: list[str] = []
        lock = threading.Lock()

        def one(name: str) -> None:
            box(chat(name, temperature=0))  # type: ignore[operator]
            with lock:
                order.append(name)

        with box.during("end_session") as report, ThreadPoolExecutor(3) as pool:  # type: ignore[attr-defined]
            for future in [pool.submit(one, name) for name in delays]:
                future.result()
        assert report.out_of_turn == 0
        return order

    def slowly(body: dict[str, object]) -> str:
        name = body["messages"][0]["content"]  # type: ignore[index]
        threading.Event().wait(delays[name])
        return str(name)

    family = Family("delays", lambda body: True, slowly)
    with ScriptedServer(families=(family,)) as server:
        setup = setup_for(server.url)
        with gateway_over(setup, tmp_path) as gateway:
            assert together(gateway.for_box("RAG", "s0001")) == ["fast", "middle", "slow"]
        for run in ("r2", "r3", "r4"):
            with gateway_over(setup, tmp_path, mode="replay", run=run) as gateway:
                box = gateway.for_box("RAG", "s0001", gap_s=0.05)
                assert together(box) == ["fast", "middle", "slow"]


def test_a_recorded_order_that_cannot_be_kept_is_given_up_and_said(
    server: ScriptedServer, tmp_path: Path
) -> None:
    setup = setup_for(server.url)
    with gateway_over(setup, tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        with box.during("end_session"):
            box(chat("one", temperature=0))
            box(chat("two", temperature=0))
    with gateway_over(setup, tmp_path, mode="replay", run="r2") as gateway:
        box = gateway.for_box("RAG", "s0001", patience_s=0.1)
        with box.during("end_session") as report:
            assert said(box(chat("two", temperature=0)))
        assert report.out_of_turn == 1


def test_a_resumed_attempt_keeps_the_order_and_another_run_waits_for_nobody(
    server: ScriptedServer, tmp_path: Path
) -> None:
    setup = setup_for(server.url)

    def names(gateway: Gateway, attempt: int, wanted: list[str]) -> list[str]:
        box = gateway.for_box("RAG", "s0001", attempt=attempt, patience_s=30, gap_s=0.05)
        order: list[str] = []

        def one(name: str) -> None:
            box(embed(name))
            order.append(name)

        with box.during("end_session"), ThreadPoolExecutor(4) as pool:
            for future in [pool.submit(one, name) for name in wanted]:
                future.result()
        return order

    with gateway_over(setup, tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        with box.during("end_session"):
            for name in ("c", "b", "a"):
                box(embed(name))
        assert names(gateway, 2, ["a", "b", "c"]) == ["c", "b", "a"]
    began = time.monotonic()
    with gateway_over(setup, tmp_path, run="r2") as gateway:
        assert names(gateway, 1, ["a"]) == ["a"]
    assert time.monotonic() - began < 5


def test_at_most_so_many_requests_are_open_on_a_route(tmp_path: Path) -> None:
    with ScriptedServer(latency_s=0.03) as server:
        with gateway_over(setup_for(server.url, concurrency=3), tmp_path) as gateway:
            box = gateway.for_box("RAG", "s0001")
            with ThreadPoolExecutor(24) as pool:
                list(pool.map(box, [chat(f"q{n}") for n in range(48)]))
            assert gateway.backend.lanes.peak == {"openai": 3}
        assert server.peak == 3


def test_stage_of_requests_outside_a_call_is_background(
    server: ScriptedServer, tmp_path: Path
) -> None:
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        box(chat("one"))
        with box.during("retrieve") as report:
            box(chat("two"))
        box(chat("three"))
        assert report.calls == 1
        assert box.background().calls == 2
        assert box.background().calls == 0
        assert [row["stage"] for row in finished(gateway)] == [
            "background",
            "retrieve",
            "background",
        ]


def test_json_that_was_asked_for_and_did_not_come_is_counted(tmp_path: Path) -> None:
    families = (Family("prose", lambda body: "prose" in str(body["messages"]), lambda body: "No."),)
    with (
        ScriptedServer(families=families) as server,
        gateway_over(setup_for(server.url), tmp_path) as gateway,
    ):
        box = gateway.for_box("Mem0-2", "s0001")
        wanted = {"response_format": {"type": "json_object"}}
        with box.during("end_session") as report:
            box(chat("prose please", **wanted))
            box(chat("good", **wanted))
            box(chat("prose but nobody asked for JSON"))
        assert report.unparsed == 1


def test_a_streaming_upstream_gives_the_same_reply(server: ScriptedServer, tmp_path: Path) -> None:
    replies = {}
    for stream in (False, True):
        with gateway_over(setup_for(server.url, stream=stream), tmp_path / str(stream)) as gateway:
            box = gateway.for_box("RAG", "s0001")
            replies[stream] = box(chat("你好 hello", n=2))["body"]
            tokens = finished(gateway)[0]["tokens"]
            assert not tokens["estimated"]
    assert server.requests[1].body["stream_options"] == {"include_usage": True}
    assert replies[True]["choices"] == replies[False]["choices"]
    assert replies[True]["usage"] == replies[False]["usage"]


def test_what_a_client_streams_is_the_same_request(server: ScriptedServer, tmp_path: Path) -> None:
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        plain = box(chat(temperature=0))
        streamed = box(chat(temperature=0, stream=True, stream_options={"include_usage": True}))
    assert plain["body"] == streamed["body"]
    assert server.count() == 1


def test_the_host_client_uses_the_settings_of_its_role(
    server: ScriptedServer, tmp_path: Path
) -> None:
    setup = setup_for(server.url)
    judge = replace(setup.roles["judge"], settings={"temperature": 0.0, "max_tokens": 64})
    setup = replace(setup, roles={**setup.roles, "judge": judge})
    with gateway_over(setup, tmp_path) as gateway:
        client = gateway.client("judge", "RAG")
        done = client.unit("s0001", session="S01").chat([_user("grade this")], max_tokens=32)
        assert done.text.startswith("reply")
        assert done.finish == "stop"
        assert done.cache == "miss"
        assert client.unit("s0001").chat([_user("grade this")], max_tokens=32).cache == "hit"
        vectors = gateway.client("embed", "RAG").unit("s0001").embed(["a", "b", "a"])
        assert vectors[0] == vectors[2] != vectors[1]
        assert finished(gateway)[0]["stage"] == "judge"
    assert server.requests[0].body["max_tokens"] == 32
    assert server.requests[0].body["temperature"] == 0.0


def test_the_track_forces_decoding_on_the_system_and_on_nobody_else(
    server: ScriptedServer, tmp_path: Path
) -> None:
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001", force={"temperature": 0, "seed": 7})
        box(chat("a", temperature=0.9))
        box(chat("a"))
        box(embed("a"))
        gateway.client("judge", "RAG").unit("s0001").chat([_user("a")])
    first, second, third = (asked.body for asked in server.requests)
    assert (first["temperature"], first["seed"]) == (0, 7)
    assert "temperature" not in second
    assert "temperature" not in third
    assert second.keys() & {"input"}, "both chats were one request: explicit 0 is shared"


def test_a_cassette_replays_by_itself(server: ScriptedServer, tmp_path: Path) -> None:
    setup = setup_for(server.url, aliases=(("gpt-4*", "gpt-test"),), headers=(("x-t", "hidden"),))
    with gateway_over(setup, tmp_path) as gateway:
        params = chat("hi", temperature=0)
        params["body"]["model"] = "gpt-4o"
        before = gateway.for_box("RAG", "s0001")(params)
        exported = tmp_path / "one.sqlite"
        gateway.backend.cassette.export(exported, "r1")
    assert b"hidden" not in exported.read_bytes()
    cassette = Cassette(exported, read_only=True)
    offline = replay_setup(cassette)
    cassette.close()
    assert offline.profile == "replay"
    assert offline.manifest()["roles"] == setup.manifest()["roles"]
    with gateway_over(offline, tmp_path, mode="replay", run="r2", tape=exported) as gateway:
        assert gateway.for_box("RAG", "s0001")(params)["body"] == before["body"]
    empty = Cassette(tmp_path / "empty.sqlite")
    with pytest.raises(UsageError, match="no recording"):
        replay_setup(empty)
    empty.close()
