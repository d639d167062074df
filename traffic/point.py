"""The traffic point: what a process asks before and after it works for a tenant (docs/quota.md).

A broker's holds bytes and request time, a gateway worker's request time alone (`node_id` NO_NODE).

`now_ms` is monotonic milliseconds everywhere. Single-threaded, no IO: the process posts `report()` to the
master every `period_ms` and hands the answer to `apply()`. How to throttle one connection:

1. Produce: `produce_verdict` before the append; after it `count_appended(record bytes)`, then
   `throttle_ms = charge_produce(frame bytes)` (refused requests are charged too: they were carried).
   Fetch: build the answer within `fetch_allowance` (the first batch always fits), then charge its frame.
2. Put `throttle_ms` into the answer. If it is above zero keep `ticket(...)` with the connection and leave it
   unread once the answer is sent.
3. Read again when `unmute_at_ms(..., ticket)` <= now. Ask again when that time comes and at least once a
   second: q and T change. Connections of one instance so come back one by one, in order of their charges.

CPU time of anything done for an instance goes to `charge_cpu` afterwards, refused and failed things included;
in debt the same applies with Direction.CPU. A new connection takes `ticket` and waits for it before its first
request.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from contracts.quota import NO_NODE, Direction, ReportAnswer, TrafficReport
from contracts.specs import InstanceSpec, InstanceState
from traffic import saved
from traffic.cpu import broker_share, gateway_share
from traffic.flow import BURST_MS, UNLIMITED, Flow
from traffic.instance import InstancePoint
from traffic.relayed import Relays
from traffic.verdict import ADMIT, Admit, Full

FETCH_UNLIMITED_BYTES: Final = 2**31 - 1


class TrafficPoint:
    """All instances of one process. Nothing is limited before its spec is known: see `set_spec`."""

    def __init__(
        self,
        *,
        point: str,
        node_id: int,
        cluster_id: str,
        boot_id: str,
        now_ms: int,
        unblock_fraction: float = 0.98,
        broker_count: int = 1,
        gateway_count: int = 1,
    ) -> None:
        """`node_id` NO_NODE and an empty `cluster_id`: a gateway worker."""
        self.point = point
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.boot_id = boot_id
        self.broker_count = broker_count
        """Brokers of the cluster: an instance nobody ever told the shares of gets T / broker_count."""
        self.gateway_count = gateway_count
        """Gateway workers, as configured or as the master says: half of T of request time is theirs."""
        self.relays = Relays()
        """What a gateway worker carries to brokers without a point of their own."""
        self.period_ms = 1_000
        self._unblock_fraction = unblock_fraction
        self._instances: dict[str, InstancePoint] = {}
        self._sequence = 0
        self._started_at_ms = self._reported_at_ms = now_ms
        self._want_full = True
        self._told: dict[str, tuple[object, ...]] = {}
        self._told_cpu: dict[str, tuple[object, ...]] = {}

    # -- the data path --------------------------------------------------------------------------------

    def charge_produce(self, instance_id: str, size_bytes: int, now_ms: int) -> int:
        """Count and charge a Produce request of `size_bytes` on the wire; answers throttle_time_ms."""
        entry = self._instances.get(instance_id) or self._entry(instance_id)
        if now_ms >= entry.lease_ends_at_ms:
            entry.fall_back(self.broker_count, now_ms)
        return entry.produce.charge(size_bytes, now_ms)

    def charge_fetch(self, instance_id: str, size_bytes: int, now_ms: int) -> int:
        """Count and charge a Fetch answer of `size_bytes` on the wire; answers throttle_time_ms."""
        entry = self._instances.get(instance_id) or self._entry(instance_id)
        if now_ms >= entry.lease_ends_at_ms:
            entry.fall_back(self.broker_count, now_ms)
        return entry.consume.charge(size_bytes, now_ms)

    def charge_cpu(self, instance_id: str, cpu_us: int, now_ms: int) -> int:
        """Count and charge CPU time spent on one request, connect or refusal; answers throttle_time_ms.

        Time is often less than a microsecond more than it: carry the rest over to the next charge.
        """
        entry = self._instances.get(instance_id) or self._entry(instance_id)
        cpu = entry.cpu
        if now_ms >= cpu.lease_ends_at_ms:
            self._fall_back_cpu(entry, now_ms)
        return cpu.flow.charge(cpu_us, now_ms)

    def fetch_allowance(self, instance_id: str, now_ms: int) -> int:
        """Bytes a Fetch answer may hold now, beside its first batch, which always fits."""
        entry = self._instances.get(instance_id)
        if entry is None:
            return FETCH_UNLIMITED_BYTES
        if now_ms >= entry.lease_ends_at_ms:
            entry.fall_back(self.broker_count, now_ms)
        rate = entry.consume.rate_per_s
        return rate * BURST_MS // 1000 if rate != UNLIMITED else FETCH_UNLIMITED_BYTES

    def produce_verdict(self, instance_id: str) -> Admit | Full:
        """Ask once per Produce request, before appending anything."""
        entry = self._instances.get(instance_id)
        return ADMIT if entry is None else entry.verdict()

    def count_appended(self, instance_id: str, size_bytes: int) -> None:
        """Record bytes went into this instance's logs: they count against its capacity at once."""
        entry = self._instances.get(instance_id)
        if entry is not None:
            entry.count_appended(size_bytes)

    def charge_internal(self, instance_id: str, size_bytes: int, now_ms: int) -> None:
        """Charge the produce rate for a request to a coordinator, or for what was written on its behalf.

        What is written about an instance that is not known (any more) is charged to nobody.
        """
        entry = self._instances.get(instance_id)
        if entry is not None:
            entry.charge_internal(size_bytes, now_ms)

    def refuse(self, instance_id: str, reason: str, count: int = 1) -> None:
        """Count refused requests; `reason` is an error's or a close cause's name."""
        self._entry(instance_id).refuse(reason, count)

    def internal(self, instance_id: str) -> Flow:
        """The bucket for which requests to coordinators wait."""
        return self._entry(instance_id).internal

    def charged_flow(self, instance_id: str, direction: Direction) -> Flow:
        """The bucket of a direction, made when the instance is new here."""
        return self._flow(self._entry(instance_id), direction)

    def connections_max(self, instance_id: str) -> int | None:
        """How many connections the instance bought; None while no spec is known."""
        entry = self._instances.get(instance_id)
        return None if entry is None or entry.spec is None else entry.spec.limits.connections_max

    def ticket(self, instance_id: str, direction: Direction) -> int:
        """Right after a charge: what names it in `unmute_at_ms`."""
        entry = self._instances.get(instance_id)
        return 0 if entry is None else self._flow(entry, direction).ticket

    def unmute_at_ms(
        self, instance_id: str, direction: Direction, now_ms: int, ticket: int | None = None
    ) -> int:
        """When the connection holding `ticket` may be read again; None: when the whole debt is paid."""
        entry = self._instances.get(instance_id)
        if entry is None:
            return now_ms
        if direction is Direction.CPU:
            if now_ms >= entry.cpu.lease_ends_at_ms:
                self._fall_back_cpu(entry, now_ms)
        elif now_ms >= entry.lease_ends_at_ms:
            entry.fall_back(self.broker_count, now_ms)
        return self._flow(entry, direction).unmute_at_ms(now_ms, ticket)

    def flow(self, instance_id: str, direction: Direction) -> Flow | None:
        """One instance's meter and bucket, to be read; None for an instance never heard of."""
        entry = self._instances.get(instance_id)
        return None if entry is None else self._flow(entry, direction)

    # -- specs, leadership ------------------------------------------------------------------------------

    def set_spec(self, spec: InstanceSpec, now_ms: int) -> bool:
        """Follow the feed; whether a rate or the block changed.

        A deleted instance keeps its rates: it may come back. A purged one is forgotten when its data is gone:
        counters never go back within a run. An instance without a spec is only metered: there is no T to
        hold it to, and no gateway serves it.
        """
        self.relays.set_spec(spec, now_ms)
        if spec.state.is_gone:
            entry = self._instances.get(spec.instance_id)
            if entry is not None:
                entry.is_purged = spec.state is InstanceState.PURGED
                entry.hold(now_ms)
            return False
        entry = self._entry(spec.instance_id)
        changed = entry.set_spec(spec, self.broker_count, now_ms)
        if not entry.cpu.on_lease:
            changed |= self._fall_back_cpu(entry, now_ms)
        return changed

    def hold(self, instance_id: str, spec: InstanceSpec | None, now_ms: int) -> None:
        """An instance is absent: it keeps the limits of the last spec known, and is never unlimited."""
        entry = self._entry(instance_id)
        if spec is not None and entry.spec is None:
            self.set_spec(spec, now_ms)
        entry.hold(now_ms)

    def set_led(self, instance_id: str, partitions_led: int, stored_bytes: int) -> None:
        """What this broker leads of an instance, and the sum of those logs' sizes (about every second)."""
        self._entry(instance_id).set_led(partitions_led, stored_bytes)

    def set_all_led(self, led: Mapping[str, tuple[int, int]]) -> None:
        """`set_led` for everything: instance id -> (partitions led, stored bytes); others lead nothing."""
        for instance_id, (partitions_led, stored_bytes) in led.items():
            self._entry(instance_id).set_led(partitions_led, stored_bytes)
        for instance_id, entry in self._instances.items():
            if instance_id not in led:
                entry.set_led(0, 0)

    def move_leadership(self, instance_id: str, partitions: int, stored_bytes: int) -> None:
        """At once when this broker becomes or ceases (negative) to be leader: a move fills no instance."""
        self._entry(instance_id).move_leadership(partitions, stored_bytes)

    def set_leaders(self, instance_id: str, leaders: Mapping[int, int], version: int) -> None:
        """Who leads how many partitions of an instance, by this broker's metadata (`contracts.quota`)."""
        self._entry(instance_id).set_leaders(leaders, version, self.node_id)

    # -- the master -------------------------------------------------------------------------------------

    def report(self, now_ms: int, sent_at_ms: int) -> TrafficReport:
        """The next report; `sent_at_ms` is epoch time. Changes are repeated until a report is answered.

        Post one at a time: `apply` takes its answer to be the answer to the last report.
        """
        for entry in self._instances.values():
            entry.keep_time(self.broker_count, now_ms)
            if now_ms >= entry.cpu.lease_ends_at_ms or not entry.cpu.on_lease:
                self._fall_back_cpu(entry, now_ms)
            entry.cpu.flow.settle(now_ms)
        self.relays.keep_time(self.gateway_count, now_ms)
        full = self._want_full
        chosen = [entry for entry in self._instances.values() if self._is_due(entry, full)]
        spent = [entry for entry in self._instances.values() if entry.cpu.is_due(full=full)]
        self._told = {entry.instance_id: entry.state() for entry in chosen}
        self._told_cpu = {entry.instance_id: entry.cpu.state() for entry in spent}
        self._sequence += 1
        window_ms = now_ms - self._reported_at_ms
        self._reported_at_ms = now_ms
        return TrafficReport(
            point=self.point,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            boot_id=self.boot_id,
            sequence=self._sequence,
            window_ms=window_ms,
            sent_at_ms=sent_at_ms,
            uptime_ms=now_ms - self._started_at_ms,
            full=full,
            instances=tuple(entry.traffic() for entry in chosen),
            cpu=tuple(entry.cpu.told(entry.instance_id) for entry in spent),
            relayed=self.relays.report(full=full),
        )

    @staticmethod
    def _is_due(entry: InstancePoint, full: bool) -> bool:
        if full or entry.acknowledged is None:
            return not entry.is_idle
        return entry.state() != entry.acknowledged

    def apply(self, answer: ReportAnswer, now_ms: int) -> frozenset[str]:
        """The answer to the last report. Returns the instances whose rate or block changed."""
        self._want_full = answer.want_full
        self.period_ms = answer.period_ms
        self.gateway_count = answer.gateways or self.gateway_count
        self._acknowledge()
        changed = set(self.relays.apply(answer.relayed, now_ms))
        for allocation in answer.allocations:
            entry = self._instances.get(allocation.instance_id)
            if entry is not None and entry.apply(allocation, now_ms):
                changed.add(allocation.instance_id)
        for lease in answer.cpu:
            entry = self._instances.get(lease.instance_id)
            if entry is not None and entry.cpu.apply(lease, now_ms):
                changed.add(lease.instance_id)
        self._drop_orphans()
        return frozenset(changed)

    def _acknowledge(self) -> None:
        for instance_id, state in self._told.items():
            if (entry := self._instances.get(instance_id)) is not None:
                entry.acknowledged = state
        for instance_id, state in self._told_cpu.items():
            if (entry := self._instances.get(instance_id)) is not None:
                entry.cpu.acknowledged = state
        self._told, self._told_cpu = {}, {}

    def _drop_orphans(self) -> None:
        """Forget instances that were purged, when nothing is left and the master knows it."""
        orphans = [
            entry.instance_id
            for entry in self._instances.values()
            if entry.is_purged
            and not entry.partitions_led
            and (entry.is_idle or entry.acknowledged == entry.state())
            and not entry.cpu.is_due(full=False)
        ]
        for instance_id in orphans:
            del self._instances[instance_id]

    # -- restart ----------------------------------------------------------------------------------------

    def save_leases(self, now_ms: int, epoch_ms: int) -> bytes:
        """Leases, blocks and debts for the disk: write them about once a period and when stopping."""
        instances = tuple(entry.save(now_ms) for entry in self._instances.values() if entry.spec is not None)
        return msgspec.json.encode(saved.SavedPoint(saved_at_epoch_ms=epoch_ms, instances=instances))

    def restore_leases(self, data: bytes, now_ms: int, epoch_ms: int) -> None:
        """Before the first spec and the first charge. A wall clock that went back ends no debt early.

        Raises: ValueError when the bytes are not a file of this version; then nothing was restored.
        """
        content = saved.decode(data)
        elapsed_ms = max(0, epoch_ms - content.saved_at_epoch_ms)
        for each in content.instances:
            entry = self._entry(each.instance_id)
            entry.restore(each, elapsed_ms, self.broker_count, now_ms)

    # -- inside -----------------------------------------------------------------------------------------

    def _entry(self, instance_id: str) -> InstancePoint:
        entry = self._instances.get(instance_id)
        if entry is None:
            entry = InstancePoint(instance_id, self._unblock_fraction)
            self._instances[instance_id] = entry
        return entry

    @staticmethod
    def _flow(entry: InstancePoint, direction: Direction) -> Flow:
        if direction is Direction.CPU:
            return entry.cpu.flow
        return entry.produce if direction is Direction.PRODUCE else entry.consume

    def _fall_back_cpu(self, entry: InstancePoint, now_ms: int) -> bool:
        """No lease, or it ended: F of the last spec known. Whether the rate changed."""
        if entry.spec is None:
            entry.cpu.end_lease()
            return False
        purchased = entry.spec.cpu_us_per_s
        if self.node_id == NO_NODE:
            share = gateway_share(purchased, gateways=self.gateway_count)
        else:
            share = broker_share(
                purchased,
                brokers=self.broker_count,
                led=entry.partitions_led,
                others_led=entry.others_led,
            )
        return entry.cpu.fall_back(share, now_ms)
