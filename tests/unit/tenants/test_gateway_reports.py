"""Connections, refused addresses and closes, over workers and their restarts."""

from contracts.specs import GatewayClusterReport, GatewayInstanceReport, GatewayReport, RefusedAddress
from contracts.upstream import ClusterTrouble
from tenants.rules.acknowledgement import SILENT_AFTER_MS
from tenants.rules.cluster_health import Illness, illness
from tenants.rules.gateway_reports import REFUSALS_KEPT, GatewayLedger


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
