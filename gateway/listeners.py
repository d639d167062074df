"""Listening sockets: one per (instance, broker) and one bootstrap per instance, shared by all workers.

A new revision of a spec changes only what differs: sockets that stay are not touched, nor are their
connections. A suspended instance keeps its ports; clients are turned away at accept.
"""

import errno
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from contracts.specs import InstanceSpec, InstanceState, Listener
from gateway.causes import DisconnectCause
from gateway.passed_on import PassedOn
from gateway.rules.lifecycle import Event, Phase
from gateway.served import ServedInstance
from gateway.sockets import reset
from gateway.strangers import STRANGERS
from gateway.worker import Worker
from runtime.config import format_host_port
from runtime.logs import get_logger

_log = get_logger(__name__)
_BACKLOG: Final = 1024
_OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_S: Final = 0.2
_WARN_EVERY_MS: Final = 10_000
_MISCONFIGURED: Final = frozenset({DisconnectCause.PROXY_HEADER_BAD, DisconnectCause.PROXY_HEADER_TIMEOUT})


class ListenerSet:
    """All listening sockets of a worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._sockets: dict[str, dict[Listener, socket.socket]] = {}
        self.failures: dict[str, str] = {}
        """Instance id -> why it is not served in full."""
        self._passed_on = PassedOn(
            worker.config.proxy_protocol_from,
            worker.loop,
            worker.config.timeouts.first_byte_ms,
            self._step,
            worker.accept,
            self._refuse,
        )
        self._warned_ms = -_WARN_EVERY_MS

    def apply(self, spec: InstanceSpec) -> None:
        """Make the world as a revision of one instance says."""
        if spec.state.is_gone:
            self.stop(spec.instance_id, DisconnectCause.INSTANCE_DELETED)
            return
        served = self._worker.served.get(spec.instance_id)
        if served is None:
            served = self._worker.join(spec)
        else:
            served.apply(spec)
        for fault in served.whitelist.faults:
            _log.error("a whitelist entry admits nobody", instance=spec.instance_id, fault=fault)
        self._bind(served)
        clock = self._worker.clock
        served.take_faults(clock.monotonic_ms(), clock.epoch_ms())
        if spec.state is InstanceState.SUSPENDED:
            served.cut(DisconnectCause.INSTANCE_SUSPENDED)
        else:
            served.cut_unwelcome()

    def stop(self, instance_id: str, cause: DisconnectCause) -> None:
        """Serve an instance no more, if it was."""
        served = self._worker.served.get(instance_id)
        if served is not None:
            self.remove(served, cause)

    def retry_failed(self) -> None:
        """Try again what could not be bound; another process may have let go of the port."""
        for instance_id in tuple(self.failures):
            self._bind(self._worker.served[instance_id])

    def _bind(self, served: ServedInstance) -> None:
        bound = self._sockets.setdefault(served.instance_id, {})
        wanted = set(served.spec.listeners)
        for listener in bound.keys() - wanted:
            self._unbind(served, listener)
        reasons = []
        for listener in sorted(wanted - bound.keys(), key=lambda one: one.port):
            lacking = self._worker.lacks_certificate(listener)
            if lacking:
                reasons.append(f"{format_host_port(listener.bind_host, listener.port)}: {lacking}")
                continue
            try:
                bound[listener] = self._listen(served, listener)
            except OSError as error:
                where = format_host_port(listener.bind_host, listener.port)
                reasons.append(f"{where}: {os.strerror(error.errno) if error.errno else error}")
        if reasons:
            reason = "; ".join(reasons)
            if self.failures.get(served.instance_id) != reason:
                _log.error("listeners failed", instance=served.instance_id, reason=reason)
            self.failures[served.instance_id] = reason
            served.move(Event.BIND_FAILED, reason)
            return
        self.failures.pop(served.instance_id, None)
        if served.phase is not Phase.SERVING:
            _log.info(
                "instance served", instance=served.instance_id, ports=sorted(one.port for one in wanted)
            )
        served.move(Event.BOUND)

    def _listen(self, served: ServedInstance, listener: Listener) -> socket.socket:
        sock = self._worker.network.stream_socket(listener.bind_host)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.bind((listener.bind_host, listener.port))
            sock.listen(_BACKLOG)
        except OSError:
            sock.close()
            raise
        self._read(sock, served, listener)
        return sock

    def _read(self, sock: socket.socket, served: ServedInstance, listener: Listener) -> None:
        self._worker.loop.add_reader(sock.fileno(), self._acceptable, sock, served, listener)

    def _acceptable(self, sock: socket.socket, served: ServedInstance, listener: Listener) -> None:
        """Connections wait: accept them when it is the instance's turn, and its debt is paid."""
        pacing, turn = self._worker.pacing, served.turn
        if pacing.may_begin(turn):
            pacing.run_now(turn, partial(self._accept, sock, served, listener))
            return
        self._worker.loop.remove_reader(sock.fileno())
        pacing.wait(turn, partial(self._accept_in_turn, sock, served, listener), begins=True)

    def _accept_in_turn(self, sock: socket.socket, served: ServedInstance, listener: Listener) -> None:
        if sock.fileno() >= 0:
            self._read(sock, served, listener)
            self._accept(sock, served, listener)

    def _accept(self, sock: socket.socket, served: ServedInstance, listener: Listener) -> None:
        worker = self._worker
        now_ms = worker.now_ms = worker.clock.monotonic_ms()
        pause_ms = served.strangers.pause_ms(now_ms)
        if pause_ms > 0:
            self._pause(pause_ms / 1000, sock, served, listener)
            return
        while True:
            try:
                client, address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                # The connection stays in the kernel's queue; asking again at once would spin.
                _log.error("no descriptors left to accept with", instance=served.instance_id)
                self._pause(_PAUSE_S, sock, served, listener)
                return
            if self._passed_on.names_client(address[0]):
                cause = self._passed_on.take(served, listener, client, address[:2])
            else:
                cause = worker.accept(served, listener, client, address[0], address[1])
            self._bill(served, cause)
            if served.turn.left_ns <= 0:
                return  # the rest stays in the kernel's queue, and is told of again

    def _step(self, served: ServedInstance, work: Callable[[], DisconnectCause | None]) -> None:
        self._worker.pacing.begin()
        self._bill(served, work())

    def _bill(self, served: ServedInstance, cause: DisconnectCause | None) -> None:
        """What a connection has cost until now is the instance's, unless it was a stranger's."""
        pacing = self._worker.pacing
        if cause in STRANGERS:
            served.strangers.charge(pacing.end_unbilled(served.turn), self._worker.clock.monotonic_ms())
        else:
            pacing.end(served.turn)

    def _refuse(
        self, served: ServedInstance, sock: socket.socket, cause: DisconnectCause, balancer: str
    ) -> None:
        """A load balancer's connection ends without a client."""
        now_ms = self._worker.clock.monotonic_ms()
        if cause in _MISCONFIGURED and now_ms - self._warned_ms >= _WARN_EVERY_MS:
            self._warned_ms = now_ms
            _log.warning(
                "a load balancer names no client",
                instance=served.instance_id,
                balancer=balancer,
                cause=str(cause),
            )
        served.closed[cause] += 1
        reset(sock)

    def _pause(self, pause_s: float, sock: socket.socket, served: ServedInstance, listener: Listener) -> None:
        self._worker.loop.remove_reader(sock.fileno())
        self._worker.loop.call_later(pause_s, self._resume, sock, served, listener)

    def _resume(self, sock: socket.socket, served: ServedInstance, listener: Listener) -> None:
        if sock.fileno() >= 0:
            self._read(sock, served, listener)

    def _unbind(self, served: ServedInstance, listener: Listener) -> None:
        sock = self._sockets[served.instance_id].pop(listener)
        self._worker.loop.remove_reader(sock.fileno())
        sock.close()
        self._passed_on.drop(served, listener, DisconnectCause.LISTENER_REMOVED)
        for connection in tuple(served.connections):
            if connection.listener == listener:
                connection.close(DisconnectCause.LISTENER_REMOVED)

    def remove(self, served: ServedInstance, cause: DisconnectCause) -> None:
        """Stop serving an instance: ports first, then connections."""
        served.move(Event.REMOVED)
        for sock in self._sockets.pop(served.instance_id, {}).values():
            self._worker.loop.remove_reader(sock.fileno())
            sock.close()
        self._passed_on.drop(served, None, cause)
        served.cut(cause)
        assert not served.connections
        served.move(Event.DRAINED)
        self.failures.pop(served.instance_id, None)
        self._worker.leave(served)
        _log.info("instance removed", instance=served.instance_id, cause=str(cause))

    def close(self) -> None:
        """The worker stops."""
        for served in tuple(self._worker.served.values()):
            self.remove(served, DisconnectCause.GATEWAY_STOPPED)
