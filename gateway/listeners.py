"""Listening sockets: one per (instance, broker) and one bootstrap per instance, shared by all workers; where
a pool of vips has one socket a port, those (`shared_ports.py`).

A new revision of a spec changes only what differs: sockets that stay are not touched, nor are their
connections. A suspended instance keeps its ports; clients are turned away at accept.
"""

import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from contracts.specs import InstanceSpec, InstanceState, Listener
from gateway.causes import DisconnectCause
from gateway.named_port import Named, NamesAtOnePort
from gateway.passed_on import PassedOn
from gateway.rules.lifecycle import Event, Phase
from gateway.rules.whitelist import Whitelist, shown_address
from gateway.served import ServedInstance
from gateway.shared_ports import OUT_OF_DESCRIPTORS, PAUSE_S, Place, SharedPorts, close_listening
from gateway.sockets import reset
from gateway.strangers import STRANGERS
from gateway.worker import Worker
from runtime.config import format_host_port
from runtime.logs import get_logger

_log = get_logger(__name__)
_BACKLOG: Final = 1024
AT_DOOR_MAX: Final = 64
"""Connections of one instance on a worker that came through a port it shares and wait for its turn; with
more, it has a socket of its own, and the kernel keeps the rest."""
_WARN_EVERY_MS: Final = 10_000
_MISCONFIGURED: Final = frozenset({DisconnectCause.PROXY_HEADER_BAD, DisconnectCause.PROXY_HEADER_TIMEOUT})


class ListenerSet:
    """All listening sockets of a worker."""

    def __init__(self, worker: Worker, inherited: dict[Place, socket.socket] | None = None) -> None:
        """`inherited` are sockets that listen already; those that a spec wants are taken from it."""
        self._worker = worker
        self._inherited = {} if inherited is None else inherited
        self._gave_way = False
        self._sockets: dict[str, dict[Listener, socket.socket | None]] = {}
        """By instance; None: only the socket that it shares with others."""
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
        self._shared = SharedPorts(
            worker.config.wildcard_for,
            worker.loop,
            self._opened,
            worker.pacing.begin,
            self._arrived,
            self._stray,
        )
        self._names = self._named_port()
        self._warned_ms = -_WARN_EVERY_MS

    def _named_port(self) -> NamesAtOnePort | None:
        worker = self._worker
        if worker.config.named_port is None:
            return None
        return NamesAtOnePort(
            worker.config.named_port,
            worker.loop,
            worker.clock,
            Whitelist(worker.config.proxy_protocol_from),
            worker.config.timeouts.first_byte_ms,
            self._opened,
            worker.pacing.begin,
            self._named,
        )

    @property
    def names(self) -> NamesAtOnePort | None:
        """The port that serves by names."""
        return self._names

    def nameless(self) -> int:
        """How many clients at that port have not named an instance yet."""
        return 0 if self._names is None else len(self._names)

    def apply(self, spec: InstanceSpec) -> None:
        """Make the world as a revision of one instance says."""
        if spec.state.is_gone:
            self.stop(spec.instance_id, DisconnectCause.INSTANCE_DELETED)
            return
        served = self._worker.served.get(spec.instance_id)
        moves = spec.is_held
        if served is None:
            served = self._worker.join(spec)
        else:
            moves |= served.spec.cluster_id != spec.cluster_id
            served.apply(spec)
        for fault in served.whitelist.faults:
            _log.error("a whitelist entry admits nobody", instance=spec.instance_id, fault=fault)
        self._bind(served)
        clock = self._worker.clock
        served.take_faults(clock.monotonic_ms(), clock.epoch_ms())
        if spec.state is InstanceState.SUSPENDED:
            served.cut(DisconnectCause.INSTANCE_SUSPENDED)
        elif moves:
            served.cut(DisconnectCause.INSTANCE_MOVED)
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
        reasons = [*self._bind_names(served)]
        missing = () if self._gave_way else wanted - bound.keys()
        for listener in sorted(missing, key=lambda one: one.port):
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

    def _bind_names(self, served: ServedInstance) -> Iterator[str]:
        """Have the instance's clients come by names, too. Answers why they cannot."""
        names = self._names
        if names is None:
            return
        for connection in tuple(served.connections):
            if connection.listener not in served.named and connection.listener not in served.spec.listeners:
                connection.close(DisconnectCause.LISTENER_REMOVED)
        names.take(served)
        if not served.named or self._gave_way:
            return
        where = f"port {served.named[0].port} of names"
        lacking = self._worker.lacks_certificate(served.named[0], by_name=True)
        if lacking:
            yield f"{where}: {lacking}"
        try:
            names.listen()
        except OSError as error:
            yield f"{where}: {os.strerror(error.errno) if error.errno else error}"

    def _listen(self, served: ServedInstance, listener: Listener) -> socket.socket | None:
        if self._shared.covers(listener):
            self._shared.add(served, listener)
            if (listener.bind_host, listener.port) not in self._inherited:
                return None
        return self._listen_alone(served, listener)

    def _listen_alone(self, served: ServedInstance, listener: Listener) -> socket.socket:
        sock = self._opened((listener.bind_host, listener.port))
        self._read(sock, served, listener)
        return sock

    def _opened(self, place: Place) -> socket.socket:
        given = self._inherited.pop(place, None)
        if given is not None:
            return given
        sock = self._worker.network.stream_socket(place[0])
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.bind(place)
            sock.listen(_BACKLOG)
        except OSError:
            sock.close()
            raise
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
        pause_ms = served.accept_pause_ms(listener, now_ms)
        if pause_ms > 0:
            self._pause(pause_ms / 1000, sock, served, listener)
            return
        while True:
            try:
                client, address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                # The connection stays in the kernel's queue; asking again at once would spin.
                _log.error("no descriptors left to accept with", instance=served.instance_id)
                self._pause(PAUSE_S, sock, served, listener)
                return
            self._take(served, listener, client, address[:2])
            if served.turn.left_ns <= 0:
                return  # the rest stays in the kernel's queue, and is told of again

    def _take(
        self, served: ServedInstance, listener: Listener, client: socket.socket, address: Place
    ) -> None:
        if self._passed_on.names_client(address[0]):
            cause = self._passed_on.take(served, listener, client, address)
        else:
            cause = self._worker.accept(served, listener, client, *address)
        self._bill(served, cause)

    def _arrived(
        self, served: ServedInstance, listener: Listener, client: socket.socket, address: Place
    ) -> None:
        """Through a shared port: what the kernel cannot keep for the instance waits here, as long as it is
        little."""
        worker = self._worker
        now_ms = worker.now_ms = worker.clock.monotonic_ms()
        has_own = True
        if served.at_door >= AT_DOOR_MAX or served.accept_pause_ms(listener, now_ms) > 0:
            has_own = self._give_own_socket(served, listener)
        if worker.pacing.may_begin(served.turn):
            self._take(served, listener, client, address)
        elif has_own or served.at_door < AT_DOOR_MAX:
            served.at_door += 1
            step = partial(self._take_in_turn, served, listener, client, address)
            worker.pacing.wait(served.turn, step, begins=True)
        else:
            served.count_refused(DisconnectCause.CONNECTION_RATE_MAX, address[0], worker.clock.epoch_ms())
            reset(client)
            worker.pacing.end(served.turn)

    def _named(self, named: Named) -> None:
        """A client has named its instance, which admits its address. It waits here where at a port of the
        instance's own the kernel would keep it."""
        worker, served = self._worker, named.served
        now_ms = worker.now_ms = worker.clock.monotonic_ms()
        pause_ms = served.accept_pause_ms(named.listener, now_ms)
        if pause_ms <= 0 and worker.pacing.may_begin(served.turn):
            self._take_named(named)
        elif served.at_door < AT_DOOR_MAX:
            served.at_door += 1
            step = partial(self._take_named_in_turn, named)
            if pause_ms > 0:
                worker.loop.call_later(pause_ms / 1000, self._named_later, named, step)
            else:
                worker.pacing.wait(served.turn, step, begins=True)
            worker.pacing.end(served.turn)
        else:
            address = shown_address(named.address[0])
            served.count_refused(DisconnectCause.CONNECTION_RATE_MAX, address, worker.clock.epoch_ms())
            reset(named.sock)
            worker.pacing.end(served.turn)

    def _named_later(self, named: Named, step: Callable[[], None]) -> None:
        if self._is_served(named):
            self._worker.pacing.run(named.served.turn, step, begins=True)
        else:
            self._take_named_in_turn(named)

    def _is_served(self, named: Named) -> bool:
        served = named.served
        return self._worker.served.get(served.instance_id) is served and named.listener in served.named

    def _take_named_in_turn(self, named: Named) -> None:
        self._worker.now_ms = self._worker.clock.monotonic_ms()
        named.served.at_door -= 1
        if self._is_served(named):
            self._take_named(named)
        else:
            named.served.closed[DisconnectCause.LISTENER_REMOVED] += 1
            reset(named.sock)

    def _take_named(self, named: Named) -> None:
        served, listener, sock, address, hello = named
        if self._worker.lacks_certificate(listener, by_name=True):
            served.closed[DisconnectCause.INSTANCE_NOT_SERVED] += 1
            reset(sock)
            return
        self._bill(served, self._worker.accept(served, listener, sock, *address, hello))

    def _stray(self, client: socket.socket) -> None:
        self._worker.connections_to_nobody += 1
        reset(client)

    def _take_in_turn(
        self, served: ServedInstance, listener: Listener, client: socket.socket, address: Place
    ) -> None:
        self._worker.now_ms = self._worker.clock.monotonic_ms()
        served.at_door -= 1
        if listener in self._sockets[served.instance_id]:
            self._take(served, listener, client, address)
        else:
            served.closed[DisconnectCause.LISTENER_REMOVED] += 1
            reset(client)

    def _give_own_socket(self, served: ServedInstance, listener: Listener) -> bool:
        """Whether the kernel keeps apart who comes to this listener from now on."""
        bound = self._sockets[served.instance_id]
        if bound[listener] is None:
            try:
                bound[listener] = self._listen_alone(served, listener)
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                return False
            _log.warning(
                "a flood of connections: the listener has a socket of its own",
                instance=served.instance_id,
                listener=format_host_port(listener.bind_host, listener.port),
            )
        return True

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
        self._close(listener, self._sockets[served.instance_id].pop(listener))
        self._passed_on.drop(served, listener, DisconnectCause.LISTENER_REMOVED)
        for connection in tuple(served.connections):
            if connection.listener == listener:
                connection.close(DisconnectCause.LISTENER_REMOVED)

    def _close(self, listener: Listener, sock: socket.socket | None) -> None:
        if self._shared.covers(listener):
            self._shared.remove(listener)
        if sock is not None:
            close_listening(self._worker.loop, sock)

    def sockets(self) -> Iterator[tuple[Place, socket.socket]]:
        """All that listen, with what they are bound to."""
        yield from self._shared.sockets.items()
        if self._names is not None:
            yield from self._names.sockets.items()
        for bound in self._sockets.values():
            for listener, sock in bound.items():
                if sock is not None:
                    yield (listener.bind_host, listener.port), sock

    def give_way(self) -> None:
        """Another process has these sockets too, and accepts from now on; connections stay."""
        self._gave_way = True
        for _, sock in tuple(self.sockets()):
            close_listening(self._worker.loop, sock)

    def remove(self, served: ServedInstance, cause: DisconnectCause) -> None:
        """Stop serving an instance: ports first, then connections."""
        served.move(Event.REMOVED)
        for listener, sock in self._sockets.pop(served.instance_id, {}).items():
            self._close(listener, sock)
        self._passed_on.drop(served, None, cause)
        if self._names is not None:
            self._names.drop(served)
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
        if self._names is not None:
            self._names.close()
