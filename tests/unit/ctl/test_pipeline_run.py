"""A job's run: the console hears of it, failures are sentences, a console that is gone does no harm."""

import json
import os
import signal
import weakref
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException

from contracts.pipeline import JobState, JobStatus
from ctl.errors import CommandError
from ctl.pipeline.metering import MeterSteps
from ctl.pipeline.run import JobRun, job_run
from pipeline.errors import PipelineError
from pipeline.spark_at import SparkAt


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[JobStatus]]:
    """What a console was told."""
    statuses: list[JobStatus] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            statuses.append(msgspec.json.decode(body, type=JobStatus))
            assert self.path == f"/v1/pipeline/jobs/{statuses[-1].id}"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PORTICO_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("PORTICO_API_KEY", "pk_test")
    yield statuses
    server.shutdown()
    server.server_close()


def test_a_run_is_told_from_its_start_to_its_end(told: list[JobStatus], tmp_path: Path) -> None:
    with job_run("load", "shop orders", tmp_path) as run:
        run.progress.planned(10, "offsets")
        run.progress.done(4)
        run.progress.figures(rows=4)
        run.progress.figures(bytes=400)
        run.progress.done(10)
    assert told[0].state is JobState.RUNNING and told[0].subject == "shop orders"
    last = told[-1]
    assert (last.state, last.planned, last.done, last.unit) == (JobState.SUCCEEDED, 10, 10, "offsets")
    cpu_ms = last.figures["cpu_ms"]
    assert last.figures == {"rows": 4, "bytes": 400, "cpu_ms": cpu_ms}
    assert {status.id for status in told} == {last.id}


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (PipelineError("the topic is gone"), "the topic is gone"),
        (CommandError("no such instance"), "no such instance"),
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), "Kafka: "),
    ],
)
def test_failures_are_sentences(
    told: list[JobStatus], tmp_path: Path, failure: Exception, sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence), job_run("load", "", tmp_path):
        raise failure
    assert told[-1].state is JobState.FAILED
    assert told[-1].error.startswith(sentence)


def test_a_job_that_needs_its_own_driver_asks_no_server(told: list[JobStatus], tmp_path: Path) -> None:
    server = SparkAt("sc://127.0.0.1:1")
    with (
        pytest.raises(CommandError, match="--master instead of --remote"),
        job_run("mirror", "", tmp_path, spark_at=server) as run,
    ):
        _ = run.spark
    with (
        pytest.raises(CommandError, match=r"no Spark Connect server is at 127\.0\.0\.1:1"),
        job_run("load", "", tmp_path, spark_at=server, by_connect=True) as run,
    ):
        _ = run.spark


def test_a_mistake_of_ours_keeps_its_traceback(told: list[JobStatus], tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), job_run("load", "", tmp_path):
        raise ZeroDivisionError
    assert told[-1].state is JobState.FAILED


def test_sigterm_ends_a_run_as_ctrl_c_does(told: list[JobStatus], tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), job_run("load", "", tmp_path):
        os.kill(os.getpid(), signal.SIGTERM)
    assert (told[-1].state, told[-1].error) == (JobState.STOPPED, "")
    assert signal.getsignal(signal.SIGTERM) is before


def test_sparks_own_handler_of_ctrl_c_does_not_stay(
    told: list[JobStatus], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It calls Spark in the middle of another call, which ends in a traceback of py4j."""
    stopped: list[str] = []

    class CutShortError(Exception):
        __module__ = "py4j.protocol"

    class Session:
        def stop(self) -> None:
            stopped.append("session")
            raise CutShortError

    def start(*_: Any) -> Session:
        def handler(_number: int, _frame: object) -> None:
            raise AssertionError("Spark's handler ran")

        signal.signal(signal.SIGINT, handler)
        return Session()

    monkeypatch.setattr("pipeline.session.spark_session", start)

    def interrupted(run: JobRun) -> None:
        assert isinstance(run.spark, Session)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), job_run("load", "", tmp_path) as run:
        interrupted(run)
    assert stopped == ["session"]
    assert told[-1].state is JobState.STOPPED


def test_a_console_that_is_gone_does_no_harm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PORTICO_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("PORTICO_API_KEY", "pk_test")
    with job_run("load", "", tmp_path) as run:
        run.progress.done(1)
    assert capsys.readouterr().err.count("the console is not told of this job") == 1


def test_continuous_metering_goes_on_after_failures_and_says_new_ones(
    told: list[JobStatus], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = iter(
        [
            PipelineError("the vport does not answer"),
            CommandError("the vport does not answer"),
            KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN)),
            None,
            KeyboardInterrupt(),
        ]
    )

    def take(_steps: MeterSteps) -> None:
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome

    monkeypatch.setattr(MeterSteps, "take", take)
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), job_run("meter", "usage", tmp_path) as run:
        MeterSteps(run).take_forever(0.001, said.append)
    assert said[0] == "the vport does not answer (trying again every 0.001 s)"
    assert said[1].startswith("Kafka: ") and len(said) == 2
    assert told[-1].figures["failed"] == 3


def test_a_signal_while_an_object_is_let_go_of_ends_the_job_too(
    told: list[JobStatus], tmp_path: Path
) -> None:
    """Python drops what is raised there, and py4j's finalizers run at any moment."""

    class Let:
        pass

    gone = Event()

    def finalizer(_reference: object) -> None:
        gone.set()
        signal.raise_signal(signal.SIGTERM)

    def body() -> None:
        thing = Let()
        kept = weakref.ref(thing, finalizer)
        del thing
        assert gone.is_set() and kept() is None, "the first interrupt was dropped"
        Event().wait(60)

    with pytest.raises(KeyboardInterrupt), job_run("load", "shop orders", tmp_path):
        body()
    assert told[-1].state is JobState.STOPPED
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_what_spark_says_of_a_call_that_a_signal_cut_short_is_no_failure(
    told: list[JobStatus], tmp_path: Path
) -> None:
    class CutShortError(Exception):
        __module__ = "py4j.protocol"

    def body() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            raise CutShortError  # as a tag that is taken away on the way up

    with pytest.raises(KeyboardInterrupt), job_run("load", "shop orders", tmp_path):
        body()
    assert told[-1].state is JobState.STOPPED
