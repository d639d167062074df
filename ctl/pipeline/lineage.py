"""What a job read and wrote, told to a collector of OpenLineage (Marquez, DataHub ...), where one is named.

OpenLineage's own client decides by its own environment where to: OPENLINEAGE_URL, OPENLINEAGE_API_KEY,
OPENLINEAGE_NAMESPACE, OPENLINEAGE_CONFIG. A collector that does not take an event fails no job.
"""

import os
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from contracts.pipeline import JobState

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.generated.base import RunFacet

_NAMED_BY: Final = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
_PRODUCER: Final = "urn:portico:pipeline"
_WAIT_S: Final = 5.0
"""A job's end waits so long for its collector."""


class Dataset(NamedTuple):
    """As OpenLineage names data."""

    namespace: str
    name: str
    rows: int | None = None
    """Written in this run."""
    size_bytes: int | None = None


def topic(bootstrap: str, name: str) -> Dataset:
    """A topic by the name that clients of this address know."""
    return Dataset(f"kafka://{bootstrap.partition(',')[0]}", name)


def table(place: object, rows: int | None = None, size_bytes: int | None = None) -> Dataset:
    """A table by its path on a disk or its URL in a store."""
    scheme, stored, rest = str(place).partition("://")
    if not stored:
        return Dataset("file", str(Path(scheme).absolute()), rows, size_bytes)
    bucket, _, key = rest.partition("/")
    return Dataset(f"{scheme}://{bucket}", key, rows, size_bytes)


class Lineage:
    """One run's events: its start, and its end with what it read and wrote until then."""

    def __init__(
        self,
        job: str,
        run_id: str,
        say: Callable[[str], None],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`run_id`: a UUID."""
        self._job, self._run_id, self._say = job, run_id, say
        self._namespace = environment.get("OPENLINEAGE_NAMESPACE", "portico")
        self._is_told = any(environment.get(name) for name in _NAMED_BY)
        self._reads: dict[Dataset, None] = {}
        self._writes: dict[Dataset, None] = {}
        self._clients: list[OpenLineageClient] = []

    def moved(self, read: Dataset, written: Dataset) -> None:
        """Rows went from one to the other."""
        self._reads[read] = self._writes[written] = None

    def began(self) -> None:
        """The job runs."""
        self._tell("START")

    def ended(self, state: JobState, error: str) -> None:
        """It does no more; `error` is the sentence of one that failed."""
        kinds = {JobState.SUCCEEDED: "COMPLETE", JobState.STOPPED: "ABORT"}
        telling = self._tell(kinds.get(state, "FAIL"), error)
        if telling is not None:
            telling.join(_WAIT_S)

    def _tell(self, kind: str, error: str = "") -> threading.Thread | None:
        """By a thread: the client tries again for as long as it is told to."""
        if not self._is_told:
            return None
        at = datetime.now(UTC).isoformat()
        telling = threading.Thread(target=self._post, args=(kind, at, error), daemon=True, name="lineage")
        telling.start()
        return telling

    def _post(self, kind: str, at: str, error: str) -> None:
        from openlineage.client import OpenLineageClient, event_v2
        from openlineage.client.facet_v2 import error_message_run, output_statistics_output_dataset

        told: dict[str, RunFacet] = {}
        if error:
            told["errorMessage"] = error_message_run.ErrorMessageRunFacet(error, "Python")
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        event = event_v2.RunEvent(
            eventTime=at,
            producer=_PRODUCER,
            eventType=event_v2.RunState[kind],
            run=event_v2.Run(self._run_id, told),
            job=event_v2.Job(self._namespace, f"portico.{self._job}"),
            inputs=[event_v2.InputDataset(each.namespace, each.name) for each in self._reads],
            outputs=[
                event_v2.OutputDataset(
                    each.namespace,
                    each.name,
                    {"outputStatistics": statistics(rowCount=each.rows, size=each.size_bytes)}
                    if each.rows is not None
                    else {},
                )
                for each in self._writes
            ],
        )
        try:
            if not self._clients:
                self._clients.append(OpenLineageClient())
            self._clients[0].emit(event)
        except Exception as fault:  # noqa: BLE001 - whatever its transport raises, the job goes on
            self._say(f"the collector of OpenLineage is not told of this job: {fault}")
