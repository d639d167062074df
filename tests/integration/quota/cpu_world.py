"""Request time on a virtual clock: real points of brokers and workers, the real master, greedy spenders."""

import random
from collections.abc import Callable

from contracts.quota import NO_NODE, Direction
from contracts.specs import InstanceSpec, InstanceState
from master.journal import IN_MEMORY, Journal
from master.service import MasterService
from master.settings import MasterSettings
from traffic.point import TrafficPoint

ID = "iabcdefghijk"
STEP_MS = 10
PERIOD_MS = 1_000
REQUEST_US = 2_000


class Process:
    """One broker or gateway worker: a loop that spends at most a core, report after report."""

    def __init__(self, world: "CpuWorld", name: str, phase_ms: int) -> None:
        self.name = name
        self.wants_us_per_s = 0
        self.spent_us = 0
        self.boots = 0
        self._world = world
        self._phase_ms = phase_ms
        self._left_us = 0
        self.point = self._boot()

    def _boot(self) -> TrafficPoint:
        self.boots += 1
        is_gateway = self.name.startswith("gateway")
        world = self._world
        return TrafficPoint(
            point=self.name,
            node_id=NO_NODE if is_gateway else int(self.name.rpartition("-")[2]),
            cluster_id="" if is_gateway else "c",
            boot_id=f"{self.name} {self.boots}",
            now_ms=world.now_ms,
            broker_count=world.brokers,
            gateway_count=world.gateways,
        )

    def restart(self) -> None:
        """Stop as a process does that is asked to, and start at once."""
        saved = self.point.save_leases(self._world.now_ms, self._world.now_ms)
        self.point = self._boot()
        self.point.restore_leases(saved, self._world.now_ms, self._world.now_ms)
        self.point.set_spec(self._world.spec, self._world.now_ms)

    def step(self) -> None:
        """Work for one step, then report if it is time."""
        now_ms = self._world.now_ms
        self._left_us = min(self._left_us, REQUEST_US)
        self._left_us += min(self.wants_us_per_s, 1_000_000) * STEP_MS // 1000
        while self._left_us >= REQUEST_US and self.point.unmute_at_ms(ID, Direction.CPU, now_ms) <= now_ms:
            self.point.charge_cpu(ID, REQUEST_US, now_ms)
            self._left_us -= REQUEST_US
            self.spent_us += REQUEST_US
        if now_ms % PERIOD_MS == self._phase_ms and self._world.master is not None:
            report = self.point.report(now_ms, now_ms)
            self.point.apply(self._world.master.receive(report), now_ms)

    @property
    def rate_us_per_s(self) -> int:
        """q in force."""
        flow = self.point.flow(ID, Direction.CPU)
        assert flow is not None
        return flow.rate_per_s


class CpuWorld:
    """`percent` of a core, bought by one instance."""

    def __init__(
        self, *, brokers: int, gateways: int, percent: int, policy: str = "seed", seed: int = 1
    ) -> None:
        print(f"seed {seed}")
        self.now_ms = 100_000
        self.brokers, self.gateways = brokers, gateways
        self._settings = MasterSettings(policy=policy)
        self._terms = 0
        self.spec = InstanceSpec(
            revision=1,
            instance_id=ID,
            tenant="t",
            name="n",
            state=InstanceState.ACTIVE,
            cluster_id="c",
            produce_rate_bytes_per_s=10**6,
            consume_rate_bytes_per_s=10**6,
            capacity_bytes=10**9,
            request_percent=percent,
        )
        drawn = random.Random(seed)
        names = [f"broker-{n}" for n in range(1, brokers + 1)] + [f"gateway-{n}" for n in range(gateways)]
        self.processes = {name: Process(self, name, drawn.randrange(0, PERIOD_MS, STEP_MS)) for name in names}
        self.master: MasterService | None = None
        self.start_master()
        for name, process in self.processes.items():
            process.point.set_spec(self.spec, self.now_ms)
            if name.startswith("broker"):
                process.point.set_led(ID, 1, 0)
                process.point.set_leaders(ID, dict.fromkeys(range(1, brokers + 1), 1), 1)
        self.run(2_000)

    @property
    def purchased(self) -> int:
        """T."""
        return self.spec.cpu_us_per_s

    def start_master(self) -> None:
        """A new one, which knows nothing."""
        self._terms += 1
        self.master = MasterService(
            lambda: {ID: self.spec},
            Journal(IN_MEMORY),
            self._settings,
            term=self._terms,
            now_ms=lambda: self.now_ms,
            wall_ms=lambda: self.now_ms,
        )

    def want(self, us_per_s: int, *names: str) -> None:
        """What the tenant's clients would make these spend."""
        for name in names or self.processes:
            self.processes[name].wants_us_per_s = us_per_s

    def run(self, duration_ms: int, each_step: Callable[[], None] = lambda: None) -> float:
        """Let time pass; what was spent, in T."""
        before = sum(process.spent_us for process in self.processes.values())
        for _ in range(duration_ms // STEP_MS):
            self.now_ms += STEP_MS
            each_step()
            for process in self.processes.values():
                process.step()
            if self.master is not None and self.now_ms % PERIOD_MS == 0:
                self.master.tick()
        spent = sum(process.spent_us for process in self.processes.values()) - before
        return spent * 1000 / duration_ms / self.purchased
