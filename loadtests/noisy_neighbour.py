"""Two instances on one stack: a greedy one that sends all it can, and a polite one that must not notice.

    locust -f loadtests/noisy_neighbour.py --headless --users 12 --spawn-rate 12 --run-time 60s \
        --greedy ID --polite ID

Instances are ids or names, looked up on the console (PORTICO_URL and PORTICO_API_KEY, or --console and
--api-key); --greedy-bootstrap and --polite-bootstrap skip the look-up. Both need the topic (--topic), or
auto-creation. For the first third of the run (--alone) the polite one is alone; then its neighbour starts.
Both latencies of the polite instance are printed at the end. Nothing is asserted: times are for people.

librdkafka runs threads of its own that gevent does not patch: one producer per instance and process, polled
by one greenlet, and no call here may block.
"""

import time
from collections.abc import Callable
from typing import Any, Final

import confluent_kafka
import gevent
import gevent.event
import httpx
from locust import User, between, constant, events, task
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment

POLL_S: Final = 0.005
ANSWER_TIMEOUT_S: Final = 130.0
"""Above librdkafka's message.timeout.ms: every record gets its callback first."""
POLITE_BYTES: Final = 1_000
GREEDY_BYTES: Final = 100_000
SIDES: Final = ("greedy", "polite")


@events.init_command_line_parser.add_listener
def _add_options(parser: LocustArgumentParser) -> None:
    add = parser.add_argument
    add("--console", env_var="PORTICO_URL", default="http://127.0.0.1:8080", help="Address of the console")
    add(
        "--api-key",
        env_var="PORTICO_API_KEY",
        default="",
        is_secret=True,
        help="A key that sees both instances",
    )
    for side in SIDES:
        variable = f"PORTICO_{side.upper()}"
        add(f"--{side}", env_var=variable, default="", help=f"The {side} instance: id or name")
        add(
            f"--{side}-bootstrap",
            env_var=f"{variable}_BOOTSTRAP",
            default="",
            help=f"Address of the {side} instance; default: ask the console",
        )
    add("--topic", env_var="PORTICO_TOPIC", default="noisy-neighbour", help="Topic, the same name in both")
    add("--alone", type=float, default=1 / 3, help="Part of the run in which the polite instance is alone")


class Side:
    """One instance as this process uses it."""

    def __init__(self, name: str, bootstrap: str, topic: str) -> None:
        self.name = name
        self.topic = topic
        self.throttle_s_max = 0.0
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all", "throttle_cb": self._throttled}
        )
        self._poller = gevent.spawn(self._poll)

    def _throttled(self, event: Any) -> None:
        self.throttle_s_max = max(self.throttle_s_max, event.throttle_time)

    def _poll(self) -> None:
        while True:
            self._producer.poll(0)
            gevent.sleep(POLL_S)

    def send(self, value: bytes) -> Exception | None:
        """Send one record and wait for its acknowledgement without blocking other users."""
        answered = gevent.event.Event()
        outcome: list[Exception | None] = [TimeoutError(f"no answer within {ANSWER_TIMEOUT_S} s")]

        def delivered(error: Any, _message: Any) -> None:
            outcome[0] = None if error is None else confluent_kafka.KafkaException(error)
            answered.set()

        while True:
            try:
                self._producer.produce(self.topic, value, on_delivery=delivered)
                break
            except BufferError:
                gevent.sleep(POLL_S)
        answered.wait(ANSWER_TIMEOUT_S)
        return outcome[0]

    def close(self) -> None:
        """Stop polling; what is still queued is given up."""
        self._poller.kill()
        self._producer.purge()


class Load:
    """One test run in this process."""

    def __init__(self, environment: Environment) -> None:
        options: Any = environment.parsed_options
        self.sides = {side: Side(side, _bootstrap(options, side), options.topic) for side in SIDES}
        self.neighbour_from_s = time.monotonic() + (options.run_time or 0) * options.alone

    @property
    def together(self) -> bool:
        """Whether the neighbour is at work."""
        return time.monotonic() >= self.neighbour_from_s

    def close(self) -> None:
        """The end of the run."""
        for side in self.sides.values():
            side.close()


def _bootstrap(options: Any, side: str) -> str:
    given = getattr(options, f"{side}_bootstrap")
    if given:
        return str(given)
    instance = getattr(options, side)
    if not instance:
        raise SystemExit(f"name the {side} instance with --{side} or --{side}-bootstrap")
    answer = httpx.get(
        f"{options.console}/v1/instances/{instance}", headers={"Authorization": f"Bearer {options.api_key}"}
    )
    if answer.status_code != 200:
        raise SystemExit(f"the console does not show instance {instance}: {answer.status_code} {answer.text}")
    servers = answer.json()["bootstrap_servers"]
    return servers if isinstance(servers, str) else ",".join(servers)


_loads: dict[int, Load] = {}
"""By environment; one in a process of locust's."""


@events.test_start.add_listener
def _on_start(environment: Environment, **_: object) -> None:
    if type(environment.runner).__name__ != "MasterRunner":
        _loads[id(environment)] = Load(environment)


@events.test_stop.add_listener
def _on_stop(environment: Environment, **_: object) -> None:
    load = _loads.pop(id(environment), None)
    if load is None:
        return
    print("\ninstance                 requests  failed   p50 ms   p99 ms")
    for name in ("polite alone", "polite with neighbour", "greedy"):
        entry = environment.stats.get(name, "produce")
        percentile: Callable[[float], int] = entry.get_response_time_percentile
        p50, p99 = (percentile(p) if entry.num_requests else 0 for p in (0.5, 0.99))
        print(f"{name:<24} {entry.num_requests:>8} {entry.num_failures:>7} {p50:>8.0f} {p99:>8.0f}")
    for side in load.sides.values():
        print(f"longest throttle told to {side.name}: {side.throttle_s_max * 1000:.0f} ms")
    load.close()


class _Producing(User):
    abstract = True
    side: str

    def produce(self, name: str, size_bytes: int) -> None:
        """One record, timed."""
        started_s = time.perf_counter()
        error = _loads[id(self.environment)].sides[self.side].send(b"x" * size_bytes)
        self.environment.events.request.fire(
            request_type="produce",
            name=name,
            response_time=(time.perf_counter() - started_s) * 1000,
            response_length=size_bytes,
            exception=error,
            context={},
        )


class Polite(_Producing):
    """Ten small records a second."""

    weight = 1
    side = "polite"
    wait_time = between(0.05, 0.15)

    @task
    def send(self) -> None:
        """One small record."""
        together = _loads[id(self.environment)].together
        self.produce("polite with neighbour" if together else "polite alone", POLITE_BYTES)


class Greedy(_Producing):
    """As much as it may, from the moment it may."""

    weight = 2
    side = "greedy"
    wait_time = constant(0)

    @task
    def send(self) -> None:
        """One large record, as soon as the last one is answered."""
        if _loads[id(self.environment)].together:
            self.produce("greedy", GREEDY_BYTES)
        else:
            gevent.sleep(0.1)
