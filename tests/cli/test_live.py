"""What a watcher sees of a run, from events alone."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from cli.board import Board
from cli.live import LiveWatch, PlainWatch, cells, table_of, watch
from harness.outcomes import Status
from harness.pipeline.events import (
    BoxFailed,
    BoxReady,
    CallRetried,
    Event,
    JudgeProgress,
    Note,
    QuestionDone,
    RunDone,
    RunStarted,
    SampleDone,
    SampleStarted,
    SessionDone,
)

STORY: tuple[Event, ...] = (
    RunStarted("BM25", 2, 0, 4, 6, 1, "container", Path("runs/x/BM25")),
    SampleStarted("BM25", "ann", "s0001", 1, 2, 3),
    BoxReady("BM25", "ann", 400.0),
    SessionDone("BM25", "ann", "S01", 0, Status.OK, 10, 4, 12.0),
    SessionDone("BM25", "ann", "S02", 1, Status.FAILED_INGEST, 10, 2, 12.0),
    QuestionDone("BM25", "ann", "q1", 0, Status.OK, 1, 5.0, 2.0),
    QuestionDone("BM25", "ann", "q2", 1, Status.OK, 1, 5.0, 8.0),
    QuestionDone("BM25", "ann", "q3", 2, Status.FAILED_RETRIEVE, 1, 5.0),
)


def told(events: tuple[Event, ...] = STORY) -> Board:
    board = Board()
    for event in events:
        board.take(event)
    return board


def test_a_box_is_one_line_with_its_counts() -> None:
    box = told().boxes["BM25", "ann"]
    assert cells(box) == ("BM25", "ann", "2/2", "3/3", "9", "5.0 ms", "2", "")


def test_a_finished_sample_leaves_its_line_and_a_sentence() -> None:
    board = told()
    said = board.take(SampleDone("BM25", "ann", 1, 1500.0, {Status.OK: 3, Status.FAILED_INGEST: 1}))
    assert said is not None
    assert said.startswith("BM25  ann done (1/2)  2 sessions, 3 questions, 9 calls")
    assert "retrieve p50 5.0 ms" in said
    assert said.endswith("1.5 s, 1 failed_ingest")
    assert board.boxes == {}
    assert board.rows["BM25"].failures == 2


def test_a_dead_box_says_why_where_and_what_then() -> None:
    board = told()
    said = board.take(
        BoxFailed("BM25", "ann", "OUT_OF_MEMORY", "over 256 MiB", 1, Path("logs/s0001.1.stderr"))
    )
    assert said is not None
    assert "OUT_OF_MEMORY: over 256 MiB" in said
    assert "starting afresh" in said
    assert "logs/s0001.1.stderr" in said
    assert board.boxes["BM25", "ann"].state == "restarting"
    again = board.take(SampleStarted("BM25", "ann", "s0001", 2, 2, 3))
    assert again is not None
    assert "attempt 2" in again
    assert board.boxes["BM25", "ann"].session == 0


def test_which_sandbox_and_why_is_said_once() -> None:
    board = Board()
    first = board.take(Note("BM25", "BM25 runs in a venv (as asked)"))
    assert first == "BM25 runs in a venv (as asked)"
    assert board.take(Note("Other", "Other runs in a venv (as asked)")) is None
    assert board.take(Note("Other", "ann was damaged")) == "Other  ann was damaged"


def test_two_samples_of_one_row_are_two_lines() -> None:
    board = told((*STORY, SampleStarted("BM25", "bob", "s0002", 1, 2, 3)))
    assert list(board.boxes) == [("BM25", "ann"), ("BM25", "bob")]


def test_plain_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    display = watch()
    assert isinstance(display, PlainWatch)
    with display:
        for event in (*STORY, CallRetried("BM25", "ann", "end_session", "LLM_ERROR")):
            display(event)
    shown = capsys.readouterr()
    assert shown.out == ""
    first, last = shown.err.splitlines()
    assert first == ("BM25  2 samples, 4 sessions, 6 questions; 1 at a time, sandbox container")
    assert "end_session failed (LLM_ERROR), once more" in last


def told_by(display: PlainWatch, capsys: pytest.CaptureFixture[str], expected: str) -> str:
    """What the display says until the expected words come, which they must soon."""
    said, deadline = "", time.monotonic() + 20
    while expected not in said and time.monotonic() < deadline:
        time.sleep(0.01)
        said += capsys.readouterr().err
    return said


def test_a_long_sample_gives_a_sign_of_life(capsys: pytest.CaptureFixture[str]) -> None:
    """Also when nothing at all happens: a call may take minutes."""
    with PlainWatch(pulse_s=0.02) as display:
        display.say("making the image (log: x)")
        assert "still at it: making the image" in told_by(display, capsys, "still at it")
        for event in STORY[1:4]:
            display(event)
        expected = "session 1/2, question 0/3, 4 calls"
        assert expected in told_by(display, capsys, expected)
    capsys.readouterr()
    time.sleep(0.1)
    assert capsys.readouterr().err == "", "and none after the end"


def test_a_host_side_row_is_not_told_as_a_fault() -> None:
    board = Board()
    started = board.take(RunStarted("Oracle", 1, 0, 6, 1, 1, "host", Path("x")))
    assert started == "Oracle  1 sample, 1 question; a reference row made on the host"
    board.take(SampleStarted("Oracle", "ann", "s0001", 1, 6, 1))
    board.take(QuestionDone("Oracle", "ann", "q1", 0, Status.OK, 0, 5.0))
    statuses = {Status.OK: 1, Status.UNSUPPORTED: 6}
    said = board.take(SampleDone("Oracle", "ann", 1, 10.0, statuses))
    assert said == "Oracle  ann done (1/1)  1 question (host-side row: questions only), 0.0 s"


def test_the_live_table_shows_what_the_board_holds() -> None:
    board = told((*STORY, JudgeProgress("BM25", 3, 10)))
    console = Console(file=io.StringIO(), width=120)
    console.print(table_of(board))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for expected in ("sample", "retrieve p50", "ann", "5.0 ms", "0/2 samples, judged 3/10"):
        assert expected in text
    board.take(RunDone("BM25", Path("x")))
    console = Console(file=io.StringIO(), width=120)
    console.print(table_of(board))
    assert "0/2 samples" not in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_live_display_takes_names_as_they_are() -> None:
    """A sample id that looks like Rich markup is printed, not obeyed."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    with LiveWatch(console) as display:
        display(SampleStarted("[red]Row", "[/bold]", "s0001", 2, 1, 0))
        display(SampleDone("[red]Row", "[/bold]", 2, 10.0))
    assert "[red]Row  [/bold] done" in stream.getvalue()
