"""`portico bench`: ratios against a peer in the same run (docs/performance.md records them)."""

import signal
import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from ctl.command import Commands
from ctl.errors import EXIT_FAILED, CommandError, usage
from ctl.output import print_table, terminal

app = Commands()

Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the results as JSON.")]
Rounds = Annotated[int, typer.Option(min=1, max=100, help="Interleaved rounds.")]
Megabytes = Annotated[int, typer.Option(min=1, max=100_000, help="Carried per round and peer.")]


@app.command()
def gateway(
    rounds: Rounds = 5,
    megabytes: Megabytes = 500,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="CASE", help="Only cases with this in their name; repeat for several."),
    ] = None,
    json: Json = None,
) -> None:
    """A stack's gateway against a direct connection and a bare relay of the same sockets."""
    from ctl.bench import gateway as bench

    for part in only or ():
        if not any(part in case for case in bench.CASES):
            raise usage(f"there is no case '{part}': {'; '.join(bench.CASES)}")
    cases = [case for case in bench.CASES if not only or any(part in case for part in only)]
    chosen = SimpleNamespace(run=partial(bench.run, only=cases))
    others = (bench.SMALL_PEERS[-1], bench.TLS_PEERS[-1])
    _run(chosen, "gateway", "gateway", ("direct", "relay", *others), rounds, megabytes, json)


@app.command()
def broker(rounds: Rounds = 5, megabytes: Megabytes = 500, json: Json = None) -> None:
    """One broker against a floor loop: receive, CRC-32C, append; and sendfile."""
    from ctl.bench import broker as bench

    _run(bench, "broker", "broker", ("floor",), rounds, megabytes, json)


@app.command()
def cluster(rounds: Rounds = 3, megabytes: Megabytes = 1000, json: Json = None) -> None:
    """Three brokers with replication against three of Apache Kafka (where there is Java and Maven)."""
    from ctl.bench import cluster as bench

    _run(bench, "cluster", bench.OURS, (bench.THEIRS,), rounds, megabytes, json)


@app.command()
def compaction(rounds: Rounds = 3, megabytes: Megabytes = 500, json: Json = None) -> None:
    """Compaction of a log of uncompressed records of 1 KB and of 100 bytes."""
    from ctl.bench import compaction as bench

    _run(bench, "compaction", "", (), rounds, megabytes, json)


@app.command()
def pipeline(
    rounds: Rounds = 3,
    megabytes: Megabytes = 500,
    part: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only lake, decode, mirror, workers, compact, metering or advice; repeat for several.",
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Lake, mirror, metering and advice on Spark, against plain reads of the same session."""
    from ctl.bench import pipeline as bench

    if strangers := set(part or ()) - set(bench.PARTS):
        raise usage(f"there is no part '{min(strangers)}': {', '.join(bench.PARTS)}")
    chosen = SimpleNamespace(run=partial(bench.run, parts=tuple(dict.fromkeys(part or bench.PARTS))))
    _run(chosen, "pipeline", "", (), rounds, megabytes, json)


@app.command()
def control(
    database_url: Annotated[
        str, typer.Option(metavar="URL", envvar="PORTICO_DATABASE_URL", help="An empty Postgres.")
    ],
    redis_url: Annotated[
        str | None, typer.Option(metavar="URL", envvar="PORTICO_REDIS_URL", help="An empty Redis.")
    ] = None,
    rate: Annotated[int, typer.Option(min=1, max=2_000, help="Reads per second.")] = 200,
    seconds: Annotated[int, typer.Option(min=1, max=600, help="Of load.")] = 20,
    rounds: Rounds = 3,
    json: Json = None,
) -> None:
    """Two control processes on one Postgres, with Redis and without: latencies, cost, fail-over."""
    from ctl.bench import control as bench
    from tenants.store.database_url import DatabaseUrl

    try:
        wanted = bench.Wanted(DatabaseUrl.parse(database_url).url, redis_url, rate, seconds)
    except ValueError as error:
        raise usage(f"--database-url: {error}") from error
    chosen = SimpleNamespace(run=lambda rounds, _megabytes, say: bench.run(wanted, rounds, say))
    _run(chosen, "control", "with redis", ("without redis",), rounds, 1, json)


@app.command()
def dashboard(
    count: Annotated[int, typer.Option(min=1, max=5_000, help="Instances, all at work.")] = 1_000,
    rounds: Rounds = 3,
    json: Json = None,
) -> None:
    """What viewers of the operators' dashboard cost the control process, and what they are sent."""
    from ctl.bench import dashboard as bench

    chosen = SimpleNamespace(run=lambda rounds, _megabytes, say: bench.run(count, rounds, say))
    _run(chosen, "dashboard", "", (), rounds, 1, json)


@app.command()
def requests(json: Json = None) -> None:
    """Every API in its most expensive shapes: how long one request holds the loop, in ms of CPU."""
    from ctl.bench import requests as bench

    _run(bench, "requests", "", (), 1, 1, json)


class GroupsPeer(StrEnum):
    """What consumer groups are measured at beside a broker of ours."""

    APACHE = "apache"


@app.command()
def groups(
    members: Annotated[int, typer.Option(min=1, max=5_000, help="Of the group that has settled.")] = 1_000,
    rounds: Rounds = 5,
    against: Annotated[
        GroupsPeer | None, typer.Option(help="The same at a broker of it too (Java, Maven).")
    ] = None,
    json: Json = None,
) -> None:
    """Consumer groups at one broker, of the new protocol and classic: rebalances and heartbeats."""
    from ctl.bench import groups as bench

    is_against = against is GroupsPeer.APACHE
    chosen = SimpleNamespace(
        run=lambda rounds, _megabytes, say: bench.run(rounds, members, against_apache=is_against, say=say)
    )
    _run(chosen, "groups", "new", ("classic",), rounds, 1, json)


@app.command()
def instances(
    count: Annotated[int, typer.Option(min=1, max=8_000, help="Instances of four vports each.")] = 5_000,
    json: Json = None,
) -> None:
    """One gateway worker with thousands of instances: start, memory, files, changes, turns of its loop."""
    from ctl.bench import instances as bench

    chosen = SimpleNamespace(run=lambda _rounds, _megabytes, say: bench.run(count, say))
    _run(chosen, "instances", "", (), 1, 1, json)


@app.command()
def quota(rounds: Rounds = 1, json: Json = None) -> None:
    """A hot partition that moves between brokers: our policies against Apache Kafka's user quotas."""
    from ctl.bench import quota as bench

    chosen = SimpleNamespace(run=lambda rounds, _megabytes, say: bench.run(rounds, say))
    _run(chosen, "quota", "", (), rounds, 1, json)


def _run(
    bench: Any,
    name: str,
    ours: str,
    peers: tuple[str, ...],
    rounds: int,
    megabytes: int,
    json: Path | None,
) -> None:
    from ctl.bench.measure import context
    from ctl.bench.report import rows, with_ratios
    from ctl.bench.servers import write_results

    facts = context()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_FAILED))  # temporary files go when it is stopped
    with terminal().status(f"bench {name}") as status:
        try:
            found: dict[str, object] = bench.run(
                rounds, megabytes, lambda what: status.update(f"bench: {what}")
            )
        except (OSError, RuntimeError) as error:
            raise CommandError(f"the benchmark stopped: {error}") from error
    results = with_ratios(found, ours, peers)
    terminal().print(", ".join(f"{name} {value}" for name, value in facts.items()))
    print_table(["MEASURED", "MIN", "MEDIAN", "MAX"], rows(results), empty="nothing")
    if json is not None:
        write_results(json, {"context": facts, "results": results})
