"""Stage 1 as a whole: the samples of a run, several boxes at a time, in constant memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from time import monotonic, perf_counter
from typing import Protocol

from harness.interrupt import PROCESS
from harness.pipeline import events
from harness.pipeline.blind import sample_ordinal
from harness.pipeline.runner import OpenAttempt, OpenBoxes, Stopped
from harness.runs import Attempt, Run
from harness.samples import Dataset, Sample

#: How often the waiting thread looks whether it should stop, and how long an interrupted run waits
#: for work that computes, in seconds.
POLL_S = 0.2
GRACE_S = 5.0


class SampleRunner(Protocol):
    """Does one sample to the end; safe to call from several threads."""

    def run(self, sample: Sample, place: int, next_attempt: OpenAttempt) -> Attempt:
        """Do a sample; returns the attempt whose records are complete."""


def one_at_a_time(listener: events.Listener) -> events.Listener:
    """A listener that need not know of threads."""
    lock = threading.Lock()

    def tell(event: events.Event) -> None:
        with lock:
            listener(event)

    return tell


class Stage:
    """Takes samples one by one, gives each to the runner and its records to the run."""

    def __init__(
        self,
        run: Run,
        dataset: Dataset,
        runner: SampleRunner,
        open_boxes: OpenBoxes,
        tell: events.Listener,
        row: str,
    ) -> None:
        self._run = run
        self._dataset = dataset
        self._runner = runner
        self._open = open_boxes
        self._tell = tell
        self._row = row
        self._lock = threading.Lock()
        self._abandoned = False

    def do(self, samples: Sequence[tuple[int, str]], jobs: int) -> None:
        """Do all samples, given as (place in the data set, id).

        Whatever ends it early (a fault, a full disk, Ctrl-C) closes all boxes first and is then
        raised; samples that were finished are recorded. An interrupt waits ``GRACE_S`` for work
        that computes and then leaves it behind; it records nothing any more.
        """
        left = iter(samples)
        workers = [self._start(left) for _ in range(min(jobs, len(samples)))]
        try:
            while not _over(workers):
                PROCESS.check()
                wait(workers, POLL_S, FIRST_EXCEPTION)
            if any(worker.done() and worker.exception() for worker in workers):
                self._open.stop()
            while not all(worker.done() for worker in workers):
                PROCESS.check()
                wait(workers, POLL_S)
        except BaseException:
            # An interrupt reaches only this thread: end the boxes, so that the others end too.
            self._open.stop()
            _wait_a_little(workers)
            with self._lock:
                self._abandoned = True
            raise
        _raise_first(workers)

    def _start(self, left: Iterator[tuple[int, str]]) -> Future[None]:
        """A worker that cannot keep the process alive, as those of a pool would."""
        future: Future[None] = Future()

        def work() -> None:
            try:
                self._work(left)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(None)

        threading.Thread(target=work, name="memrig-sample", daemon=True).start()
        return future

    def _work(self, left: Iterator[tuple[int, str]]) -> None:
        while True:
            with self._lock:
                place, sample_id = next(left, (None, ""))
                if place is None or self._open.stopped:
                    return
                sample = self._dataset.sample(sample_id)
            began = perf_counter()
            ordinal = sample_ordinal(place)

            def next_attempt(sample_id: str = sample_id, ordinal: str = ordinal) -> Attempt:
                return self._run.next_attempt(sample_id, ordinal)

            attempt = self._runner.run(sample, place, next_attempt)
            with self._lock:
                if self._abandoned:
                    raise Stopped
                self._run.append_sample(attempt)
            ms = (perf_counter() - began) * 1000
            self._tell(
                events.SampleDone(self._row, sample_id, attempt.number, ms, dict(attempt.statuses))
            )


def _over(workers: Sequence[Future[None]]) -> bool:
    """All are done, or one has failed."""
    done = [worker for worker in workers if worker.done()]
    return len(done) == len(workers) or any(worker.exception() for worker in done)


def _wait_a_little(workers: Sequence[Future[None]]) -> None:
    until = monotonic() + GRACE_S
    while not (all(worker.done() for worker in workers) or PROCESS.hurried):
        if monotonic() > until:
            return
        wait(workers, POLL_S)


def _raise_first(workers: Sequence[Future[None]]) -> None:
    """Raise what ended the work: the first fault that is not just the stopping of the others."""
    errors = [error for worker in workers if (error := worker.exception()) is not None]
    faults = [error for error in errors if not isinstance(error, Stopped)]
    for error in faults or errors:
        raise error
