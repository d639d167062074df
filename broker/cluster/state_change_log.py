"""state-change.log: every command about a partition that this broker sent as controller or received.

One JSON object per line and partition, oldest first, so that the logs of a cluster merge by `ts`:

    ts                epoch ms
    broker            who writes the line
    event             "sent" (by the controller), "received" (by a broker)
    peer              to whom it was sent; when received, the controller
    request           "LeaderAndIsr" or "StopReplica"
    controller_epoch, topic, partition, leader_epoch
    leader, isr, replicas, partition_epoch, is_new    of a LeaderAndIsr
    delete            of a StopReplica: whether the log goes too
    error             of "received": Kafka's error code, 0 when it was done

A file that has grown past `size_bytes_max` becomes state-change.log.1 and so on; the oldest goes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from contracts.cluster import (
    Command,
    CommandResponse,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

FILE_NAME: Final = "state-change.log"
SIZE_BYTES_MAX: Final = 16 * 1024 * 1024
FILES_KEPT: Final = 5


class StateChangeLog:
    """The file. Lines that cannot be written are reported and dropped: no partition waits for its log."""

    def __init__(
        self,
        directory: Path,
        broker_id: int,
        epoch_ms: Callable[[], int],
        failed: Callable[[OSError], None],
        *,
        size_bytes_max: int = SIZE_BYTES_MAX,
    ) -> None:
        self._path = directory / FILE_NAME
        self._broker_id = broker_id
        self._epoch_ms = epoch_ms
        self._failed = failed
        self._size_bytes_max = size_bytes_max
        self._encode = msgspec.json.Encoder().encode

    def sent(self, to: int, request: Command) -> None:
        """The controller on this broker sends a command."""
        if not isinstance(request, UpdateMetadataRequest):
            self._write("sent", to, request, {})

    def received(self, request: Command, response: CommandResponse) -> None:
        """A command came and was answered."""
        if isinstance(request, UpdateMetadataRequest) or isinstance(response, UpdateMetadataResponse):
            return
        codes = {(each.topic, each.partition): each.error_code for each in response.partition_errors}
        if response.error_code:
            codes = {(each.topic, each.partition): response.error_code for each in request.partition_states}
        self._write("received", request.controller_id, request, codes)

    def _write(
        self,
        event: str,
        peer: int,
        request: LeaderAndIsrRequest | StopReplicaRequest,
        codes: dict[tuple[str, int], int],
    ) -> None:
        if not request.partition_states:
            return
        head = {
            "ts": self._epoch_ms(),
            "broker": self._broker_id,
            "event": event,
            "peer": peer,
            "request": type(request).__name__.removesuffix("Request"),
            "controller_epoch": request.controller_epoch,
        }
        lines = []
        for state in request.partition_states:
            line = head | _fields(state)
            if event == "received":
                line["error"] = codes.get((state.topic, state.partition), 0)
            lines.append(self._encode(line))
        try:
            self._append(b"\n".join(lines) + b"\n")
        except OSError as error:
            self._failed(error)

    def _append(self, data: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(data)
            size_bytes = file.tell()
        if size_bytes >= self._size_bytes_max:
            self._rotate()

    def _rotate(self) -> None:
        for number in range(FILES_KEPT - 1, 0, -1):
            older = self._path.with_name(f"{FILE_NAME}.{number}")
            if older.exists():
                older.replace(self._path.with_name(f"{FILE_NAME}.{number + 1}"))
        self._path.replace(self._path.with_name(f"{FILE_NAME}.1"))


def _fields(state: LeaderAndIsrPartitionState | StopReplicaPartitionState) -> dict[str, Any]:
    named: dict[str, Any] = {
        "topic": state.topic,
        "partition": state.partition,
        "leader_epoch": state.leader_epoch,
    }
    if isinstance(state, StopReplicaPartitionState):
        return named | {"delete": state.delete_partition}
    return named | {
        "leader": state.leader,
        "isr": state.isr,
        "replicas": state.replicas,
        "partition_epoch": state.partition_epoch,
        "is_new": state.is_new,
    }
