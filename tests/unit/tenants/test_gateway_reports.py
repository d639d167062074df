"""Connections, refused addresses and closes, over workers and their restarts."""

from contracts.connected import ClientIdSum, Connected, ConnectedClient
from contracts.specs import GatewayClusterReport, GatewayInstanceReport, GatewayReport, RefusedAddress
from contracts.upstream import ClusterTrouble
from tenants.rules.acknowledgement import SILENT_AFTER_MS
from tenants.rules.client_sums import ClientFigure, over_workers
from tenants.rules.cluster_health import Illness, illness
from tenants.rules.connected import clients_of
from tenants.rules.gateway_reports import (
    CLIENT_IDS_TOLD_ON,
    CLIENTS_TOLD_ON,
    COUNTS_TOLD_ON_MAX,
    REFUSALS_KEPT,
    GatewayLedger,
)


def _report(
    consumer: str = "gateway-0",
    boot_id: str = "b",
    connections: int = 1,
    closed: dict[str, int] | None = None,
    refused: tuple[RefusedAddress, ...] = (),
    instance_id: str = "i1",
) -> GatewayReport:
    one = GatewayInstanceReport(
        instance_id=instance_id, connections=connections, closed=closed or {}, refused=refused
    )
    return GatewayReport(consumer=consumer, boot_id=boot_id, sent_at_ms=0, instances=(one,))


def test_connections_are_summed_over_workers_that_report() -> None:
    ledger = GatewayLedger()
    ledger.receive(_report("gateway-0", connections=2), 0)
    ledger.receive(_report("gateway-1", connections=3), 4000)
    assert ledger.connections("i1", 4000) == 5
    assert ledger.connections("i1", SILENT_AFTER_MS + 1) == 3
    assert ledger.connections("other", 0) == 0
    assert ledger.connections_by_worker(SILENT_AFTER_MS + 1) == {"gateway-1": 3}


def test_an_instance_left_out_has_no_connections_but_keeps_its_closes() -> None:
    ledger = GatewayLedger()
    ledger.receive(_report(connections=2, closed={"idle": 4}), 0)
    ledger.receive(_report(instance_id="i2"), 1000)
    assert ledger.connections("i1", 1000) == 0
    assert ledger.closed("i1") == {"idle": 4}


def test_closes_survive_the_restart_of_a_worker() -> None:
    ledger = GatewayLedger()
    ledger.receive(_report(boot_id="a", closed={"idle": 4, "client": 1}), 0)
    ledger.receive(_report(boot_id="b", closed={"idle": 1}), 1)
    ledger.receive(_report(boot_id="b", closed={"idle": 2}), 2)
    assert ledger.closed("i1") == {"client": 1, "idle": 6}


def test_the_last_fifty_refusals_newest_first() -> None:
    ledger = GatewayLedger()
    for at_ms in range(60):
        ledger.receive(_report(refused=(RefusedAddress(address="9.9.9.9", at_ms=at_ms),)), at_ms)
    kept = ledger.refusals("i1")
    assert [one.at_ms for one in kept] == list(range(59, 59 - REFUSALS_KEPT, -1))
    ledger.forget(["i1"])
    assert ledger.refusals("i1") == []


def _refused(consumer: str, *cluster_ids: str) -> GatewayReport:
    refused = tuple(
        GatewayClusterReport(cluster_id=one, trouble=ClusterTrouble.LOGIN_REFUSED, says="wrong password")
        for one in cluster_ids
    )
    return GatewayReport(consumer=consumer, boot_id="b", sent_at_ms=0, clusters=refused)


def test_a_cluster_is_in_trouble_for_as_long_as_a_gateway_says_so() -> None:
    ledger = GatewayLedger()
    ledger.receive(_refused("gateway-1", "far"), 0)
    ledger.receive(_refused("gateway-0", "far", "further"), 0)
    ledger.receive(_refused("gateway-2"), 0)
    found = illness(None, ledger.troubles("far", 0))
    assert found == Illness(
        ClusterTrouble.LOGIN_REFUSED, "not for gateway-0, gateway-1, which cannot use it: wrong password"
    )
    ledger.receive(_refused("gateway-0"), 1)
    assert list(ledger.troubles("far", 1)) == ["gateway-1"]
    assert illness(None, ledger.troubles("further", 1)) is None
    assert not ledger.troubles("far", SILENT_AFTER_MS + 1), "what is silent says nothing"


def test_what_the_console_finds_goes_before_what_gateways_do() -> None:
    own = Illness(ClusterTrouble.UNREACHABLE, "no broker answers")
    ledger = GatewayLedger()
    ledger.receive(_refused("gateway-0", "far"), 0)
    assert illness(own, ledger.troubles("far", 0)) == own
    assert illness(own, {}) == own


def test_troubles_told_to_another_control_process_are_told_here() -> None:
    there, here = GatewayLedger(), GatewayLedger()
    there.receive(_refused("gateway-0", "far"), 0)
    for report, seen_ms in there.reports():
        here.hear(report, seen_ms)
    assert list(here.troubles("far", 0)) == ["gateway-0"]


def _counted(consumer: str, connected: Connected, instance_id: str = "i1") -> GatewayReport:
    one = GatewayInstanceReport(instance_id=instance_id, connections=1, connected=connected)
    return GatewayReport(consumer=consumer, boot_id="b", sent_at_ms=0, instances=(one,))


def _client(address: str, in_bytes_per_s: int, client_id: str = "app") -> ConnectedClient:
    return ConnectedClient(address=address, client_id=client_id, connections=1, in_bytes_per_s=in_bytes_per_s)


def _told(*clients: ConnectedClient, others: ConnectedClient | None = None) -> Connected:
    return Connected(seconds=5, clients=clients, count=len(clients), others=others)


def test_a_client_at_two_workers_is_one_and_who_does_not_report_counts_no_more() -> None:
    ledger = GatewayLedger()
    ledger.receive(_counted("gateway-0", _told(_client("10.0.0.1", 5), _client("10.0.0.2", 7))), 0)
    rest = ConnectedClient(address="", connections=40, ended_per_s=9.5)
    ledger.receive(_counted("gateway-1", _told(_client("10.0.0.1", 3), others=rest)), 4_000)
    found = clients_of(ledger.counts("i1", 4_000), 4_000)
    assert [(one.address, one.connections, one.in_bytes_per_s) for one in found.items] == [
        ("10.0.0.1", 2, 8),
        ("10.0.0.2", 1, 7),
    ]
    assert found.others == rest and found.age_ms == 4_000 and found.known == 2
    later = clients_of(ledger.counts("i1", SILENT_AFTER_MS + 1), SILENT_AFTER_MS + 1)
    assert [one.in_bytes_per_s for one in later.items] == [3]
    assert clients_of(ledger.counts("i2", 0), 0) == ([], None, 0, None)
    ledger.forget(["i1"])
    assert ledger.counts("i1", 4_000) == []


def test_a_report_without_a_count_leaves_the_last_and_one_that_leaves_an_instance_out_ends_it() -> None:
    ledger = GatewayLedger()
    ledger.receive(_counted("gateway-0", _told(_client("10.0.0.1", 5))), 0)
    ledger.receive(_report("gateway-0"), 1_000)
    assert len(ledger.counts("i1", 1_000)) == 1
    ledger.receive(_report("gateway-0", instance_id="i2"), 2_000)
    assert ledger.counts("i1", 2_000) == []


def test_other_control_processes_hear_of_every_count_by_turns_and_in_short() -> None:
    ours, theirs = GatewayLedger(), GatewayLedger()
    instances = [f"i{number}" for number in range(2 * COUNTS_TOLD_ON_MAX)]
    clients = [_client(f"10.0.0.{number}", 100 - number) for number in range(20)]
    report = GatewayReport(
        consumer="gateway-0",
        boot_id="b",
        sent_at_ms=0,
        instances=tuple(
            GatewayInstanceReport(instance_id=each, connections=1, connected=_told(*clients))
            for each in instances
        ),
    )
    ours.receive(report, 1_500)
    for turn in (1, 2):
        [(told, _)] = ours.reports()
        assert sum(one.connected is not None for one in told.instances) == COUNTS_TOLD_ON_MAX
        theirs.hear(told, 1_500 + turn)
    assert all(one.connected is None for one in ours.reports()[0][0].instances)
    for instance_id in instances:
        found = clients_of(theirs.counts(instance_id, 2_000), 2_000)
        assert len(found.items) == CLIENTS_TOLD_ON and found.others is not None
        assert sum(one.in_bytes_per_s for one in (*found.items, found.others)) == sum(range(81, 101))
    assert theirs.reports() == [], "what was heard is not told on"


def _by_id(*ids: ClientIdSum) -> Connected:
    """A count as long as a step."""
    return Connected(seconds=15, count=1, by_client_id=ids)


def _carried(client_id: str, in_bytes: int) -> ClientIdSum:
    return ClientIdSum(client_id=client_id, connections=1, in_bytes=in_bytes)


def _taken(ledger: GatewayLedger, now_ms: int, instance_id: str = "i1") -> dict[str, ClientFigure] | None:
    found = ledger.take_sums(now_ms).get(instance_id, [])
    return None if found is None else over_workers(found)


def _steady(ledger: GatewayLedger, *gateways: str) -> None:
    """Two counts, and a step: the next one begins with the second."""
    for _ in range(2):
        for name in gateways:
            ledger.receive(_counted(name, _by_id(_carried("a", 1_500), _carried("", 15))), 0)
    assert _taken(ledger, 0) is not None


def test_what_clients_carried_is_taken_once_and_of_all_workers() -> None:
    ledger = GatewayLedger()
    _steady(ledger, "gateway-0", "gateway-1")
    assert _taken(ledger, 0) == {"a": ClientFigure(200, 0, 0, 2, 0), "": ClientFigure(2, 0, 0, 2, 0)}
    ledger.receive(_counted("gateway-0", _by_id(_carried("a", 1_500))), SILENT_AFTER_MS)
    silent_ms = SILENT_AFTER_MS + 1
    found = _taken(ledger, silent_ms)
    assert found is not None and found["a"].in_bytes_per_s == 100, (
        "gateway-1 is silent, and what it told is over"
    )
    ledger.forget(["i1"])
    assert _taken(ledger, silent_ms) == {}


def test_a_worker_that_was_started_anew_leaves_a_hole_until_it_has_counted() -> None:
    ledger = GatewayLedger()
    _steady(ledger, "gateway-0", "gateway-1")
    ledger.receive(_report("gateway-0", boot_id="c", connections=0), 1_000)
    found = _taken(ledger, 1_000)
    assert found is not None and found["a"].in_bytes_per_s == 200, "what it told before it ended"
    ledger.receive(_report("gateway-0", boot_id="c"), 2_000)
    assert _taken(ledger, 2_000) is None, "it has connections, and who knows whose"
    told = _by_id(_carried("a", 150))
    counted = GatewayInstanceReport(instance_id="i1", connections=1, connected=told)
    ledger.receive(
        GatewayReport(consumer="gateway-0", boot_id="c", sent_at_ms=0, instances=(counted,)), 3_000
    )
    for _ in range(2):
        found = _taken(ledger, 3_000)
    assert found is not None and found["a"].in_bytes_per_s == 110


def test_a_worker_that_does_not_count_by_ids_leaves_a_hole() -> None:
    ledger = GatewayLedger()
    ledger.receive(_counted("gateway-0", _told(_client("10.0.0.1", 5))), 0)
    assert _taken(ledger, 0) is None


def test_other_control_processes_hear_of_the_busiest_ids_and_of_every_byte() -> None:
    ours, theirs = GatewayLedger(), GatewayLedger()
    ids = tuple(_carried(f"c{number:02}", 15_000 - 150 * number) for number in range(20))
    for at_ms in (0, 15_000):
        ours.receive(_counted("gateway-0", _by_id(*ids, _carried("", 150))), at_ms)
        for report, seen_ms in ours.reports():
            theirs.hear(report, seen_ms)
        found = _taken(theirs, at_ms)
    assert found is not None and [*found] == [*(f"c{n:02}" for n in range(CLIENT_IDS_TOLD_ON)), ""]
    assert sum(one.in_bytes_per_s for one in found.values()) == sum(one.in_bytes for one in ids) / 15 + 10
    assert found[""].connections == len(ids) - CLIENT_IDS_TOLD_ON + 1
