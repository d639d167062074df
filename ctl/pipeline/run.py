"""One run of a job from the command line: Spark when it is needed, progress, its end told to the console."""

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from confluent_kafka import KafkaException

from contracts.pipeline import JobState, JobStatus
from ctl.command import Made
from ctl.console_client import Console, instance_path
from ctl.errors import CommandError
from ctl.options import DEFAULT_DATA_DIR, DataDir, Tenant
from ctl.pipeline.cpu import cpu_ms
from ctl.pipeline.lineage import Lineage
from ctl.pipeline.progress import ShownProgress, quiet_teller
from ctl.pipeline.spark_options import Lake, Master, Remote, SparkSettings, spark_at
from pipeline.errors import PipelineError
from pipeline.ingest.failures import is_from_spark, is_from_store, is_interrupted
from pipeline.layout import PipelineLayout
from pipeline.spark_at import THIS_MACHINE, SparkAt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.store import AnyPath

_SENTENCE_LENGTH_MAX: Final = 600
_AGAIN_S: Final = 0.05
_NOT_BY_CONNECT: Final = (
    "this job needs Spark's driver in its own process, for streams or tables that a Spark Connect server "
    "does not have: use --master instead of --remote"
)


@dataclass
class JobRun:
    """What a command hands to its job."""

    console: Console
    layout: PipelineLayout
    progress: ShownProgress
    spark_at: SparkAt
    lineage: Lineage
    _sessions: "list[SparkSession]" = field(default_factory=list)
    """The session once it is started, or one that several runs share."""
    by_connect: bool = False
    """Whether the job asks Spark for nothing but what a Spark Connect server gives."""
    _parts: list[ShownProgress] = field(default_factory=list)

    @property
    def spark(self) -> "SparkSession":
        """The session, started when it is first asked for. Raises: PipelineError."""
        if self.spark_at.is_connect and not self.by_connect:
            raise PipelineError(_NOT_BY_CONNECT)
        if not self._sessions:
            from pipeline.session import spark_session

            at = self.layout.lake_root
            self._sessions.append(spark_session(self.layout.scratch, say, self.spark_at, at))
            _stop_on_signals()  # Spark's own handler of SIGINT calls Spark in the middle of another call
        return self._sessions[0]

    def part(self, job: str, subject: str) -> ShownProgress:
        """A part of this run, such as one of its queries, with a line and a status of its own."""
        part = ShownProgress(job, subject, self.progress.tell, beside=self.progress)
        self._parts.append(part)
        part.start()
        return part

    def end(self, state: JobState, error: str) -> None:
        """The run and its parts ended."""
        for progress in (*self._parts, self.progress):
            progress.end(state, error)

    def instance(self, name: str) -> Any:
        """An instance as the console shows it, by id or name: `bootstrap_servers`, `id` and so on."""
        return self.console.get(instance_path(name))


StartJob = Callable[[str, str], AbstractContextManager[JobRun]]
"""Starts the run of a job by its name, about a subject."""


@contextmanager
def job_run(
    job: str,
    subject: str,
    data_dir: Path,
    tenant: str | None = None,
    shared: "SparkSession | None" = None,
    spark_at: SparkAt = THIS_MACHINE,
    lake: str | None = None,
    by_connect: bool = False,
) -> Iterator[JobRun]:
    """Run a job's body; a `shared` session is used and goes on afterwards. `lake`: the URL of its root.

    Raises: CommandError, of whatever fails in it that has a sentence.
    """
    with sentences():
        root = None if lake is None else _lake_root(lake)
    with Console.of(data_dir, tenant) as console:
        before_ms = cpu_ms()

        def tell(status: JobStatus) -> None:
            if status.id == progress.status.id:
                cost = {"cpu_ms": max(0, cpu_ms() - before_ms)}
                status = msgspec.structs.replace(status, figures=status.figures | cost)
            console.call("PUT", f"pipeline/jobs/{status.id}", msgspec.to_builtins(status))

        progress = ShownProgress(job, subject, quiet_teller(tell, say))
        sessions = [] if shared is None else [shared]
        layout = PipelineLayout(data_dir.resolve(), root, is_spark_here=spark_at.is_local)
        lineage = Lineage(job, progress.status.id, say)
        run = JobRun(console, layout, progress, spark_at, lineage, sessions, by_connect)
        progress.start()
        lineage.began()
        state, error = JobState.FAILED, "it met a mistake of the program: see its output"
        try:
            with stopped_by_sigterm(), sentences():
                yield run
            state, error = JobState.SUCCEEDED, ""
        except CommandError as failed:
            error = failed.sentence
            raise
        except KeyboardInterrupt:
            state, error = JobState.STOPPED, ""
            raise
        finally:
            run.end(state, error)
            lineage.ended(state, error)
            if shared is None and sessions:
                _stop(sessions[0], is_cut_short=state is JobState.STOPPED)


def _lake_root(url: str) -> "AnyPath":
    """Raises: PipelineError, also where it does not answer."""
    from pipeline.store import lake_root, must_answer

    root = lake_root(url)
    must_answer(root)
    return root


def _for_tenant(tenant: Tenant = None, data_dir: DataDir = DEFAULT_DATA_DIR) -> StartJob:
    return partial(job_run, data_dir=data_dir, tenant=tenant)


def _for_readers(tenant: Tenant = None, lake: Lake = None, data_dir: DataDir = DEFAULT_DATA_DIR) -> StartJob:
    return partial(job_run, data_dir=data_dir, tenant=tenant, lake=lake)


def _for_streams(
    tenant: Tenant = None,
    master: Master = None,
    remote: Remote = None,
    spark_conf: SparkSettings = None,
    lake: Lake = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> StartJob:
    at = spark_at(master, spark_conf, remote)
    return partial(job_run, data_dir=data_dir, tenant=tenant, spark_at=at, lake=lake)


def _for_mirrors(
    tenant: Tenant = None,
    master: Master = None,
    remote: Remote = None,
    spark_conf: SparkSettings = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> StartJob:
    at = spark_at(master, spark_conf, remote)
    return partial(job_run, data_dir=data_dir, tenant=tenant, spark_at=at, by_connect=True)


def _for_lakes(
    tenant: Tenant = None,
    master: Master = None,
    remote: Remote = None,
    spark_conf: SparkSettings = None,
    lake: Lake = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> StartJob:
    at = spark_at(master, spark_conf, remote)
    return partial(job_run, data_dir=data_dir, tenant=tenant, spark_at=at, lake=lake, by_connect=True)


def _for_operators(data_dir: DataDir = DEFAULT_DATA_DIR) -> StartJob:
    return partial(job_run, data_dir=data_dir)


TenantJob = Annotated[StartJob, Made(_for_tenant)]
"""Of jobs that ask no Spark."""
ReportJob = Annotated[StartJob, Made(_for_readers)]
"""The same of what lies in a lake."""
StreamJob = Annotated[StartJob, Made(_for_streams)]
MirrorJob = Annotated[StartJob, Made(_for_mirrors)]
LakeJob = Annotated[StartJob, Made(_for_lakes)]
OperatorJob = Annotated[StartJob, Made(_for_operators)]


def _stop(session: "SparkSession", *, is_cut_short: bool) -> None:
    """Spark's answer to a call that was cut short never comes: what it says of that is no news."""
    try:
        session.stop()
    except Exception as error:
        if not is_cut_short or not is_from_spark(error):
            raise


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """SIGTERM ends a job as Ctrl-C does: sessions are stopped and the console is told."""

    before, hook = _stop_on_signals(), sys.unraisablehook
    sys.unraisablehook = partial(_stop_again, hook)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = hook
        for each, handler in before.items():
            signal.signal(each, handler)


def _stop_on_signals() -> dict[signal.Signals, Any]:
    """Returns the handlers of before."""
    stopping = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)
    return {each: signal.signal(each, _stop_here) for each in stopping}


def _stop_here(_number: int, _frame: object) -> None:
    logging.disable()  # of the call that this interrupts, py4j would log a traceback
    raise KeyboardInterrupt


def _stop_again(
    hook: Callable[["sys.UnraisableHookArgs"], object], ignored: "sys.UnraisableHookArgs"
) -> None:
    """Where a signal comes while an object is let go of, as py4j does of Java's at any moment, Python drops
    what its handler raises: the job would go on.
    """
    if ignored.exc_type is KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    else:
        hook(ignored)


@contextmanager
def sentences() -> Iterator[None]:
    """Failures of Spark and Kafka as one sentence."""
    try:
        yield
    except PipelineError as error:
        raise CommandError(error.sentence) from error
    except KafkaException as error:
        raise CommandError(f"Kafka: {error.args[0]}") from error
    except Exception as error:
        if is_from_store(error):
            from pipeline.store import store_fault

            raise CommandError(f"a table cannot be read or written: {store_fault(error)}") from error
        if not is_from_spark(error):
            raise
        if is_interrupted(error):
            raise KeyboardInterrupt from error
        raise CommandError(f"Spark: {_first_lines(error)}") from error


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return " / ".join([*lines[:1], *causes[-1:]])[:_SENTENCE_LENGTH_MAX]


def say(text: str) -> None:
    """A line for people, apart from the output."""
    print(f"portico: {text}", file=sys.stderr, flush=True)
