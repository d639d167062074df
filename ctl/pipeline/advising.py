"""Advice as one step of a command: what the console and the brokers know of instances, handed to the job."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from contracts.advice import MoveRow
from ctl.cluster_client import Cluster, Reach, with_cluster
from ctl.console_client import Console
from ctl.errors import CommandError
from ctl.pipeline.run import JobRun, say
from ctl.tools.placements import placements
from ctl.tools.reassignment_plan import encode
from runtime.clock import epoch_ms
from runtime.process import write_json

if TYPE_CHECKING:
    from pipeline.advice.job import Advised
    from pipeline.advice.judging.judgement import Bought
    from pipeline.advice.judging.moves import Placement


class Given(NamedTuple):
    """What a run advised."""

    advised: "Advised"
    names: Mapping[str, str]
    """Names of instances, by id."""
    plans: Mapping[str, Path]
    """Files with moves, by instance id."""


def advise_into(
    run: JobRun, reach: Reach, tenant: str | None = None, instance: str | None = None, sample_s: float = 5.0
) -> Given | None:
    """Advise on all instances, those of a tenant, or one; None: there is none yet.

    Raises: CommandError, PipelineError.
    """
    found = _instances(run, reach.data_dir, tenant, instance)
    if not found:
        run.progress.figures(instances=0, moves=0)
        return None
    from pipeline.advice.job import advise as advise_job

    advised = advise_job(
        run.layout,
        run.progress,
        [_bought(one) for one in found],
        now_ms=epoch_ms(),
        places=lambda instance_ids: _places(reach, instance_ids, sample_s),
        only_one=instance is not None,
    )
    names = {str(one["id"]): str(one["name"]) for one in found}
    return Given(advised, names, write_plans(run.layout.reports / "moves", advised.moves))


def _instances(run: JobRun, data_dir: Path, tenant: str | None, instance: str | None) -> list[Any]:
    if instance is not None:
        return [run.instance(instance)]
    with Console.of(data_dir, tenant or "*") as console:
        return console.all_items("instances")


def _bought(view: Any) -> "Bought":
    from pipeline.advice.judging.judgement import Bought

    return Bought(
        str(view["id"]),
        int(view["produce_rate_bytes_per_s"]),
        int(view["consume_rate_bytes_per_s"]),
        int(view["capacity_bytes"]),
    )


def _places(reach: Reach, instance_ids: Sequence[str], sample_s: float) -> "Mapping[str, Placement]":
    """Advice on sizes does not wait for a cluster that cannot be asked."""

    async def work(cluster: Cluster) -> "dict[str, Placement]":
        return await placements(cluster, instance_ids, sample_s)

    try:
        return with_cluster(reach, work)
    except CommandError as error:
        say(f"partition moves are not advised: {error.sentence}")
        return {}


def write_plans(folder: Path, moves: Iterable[MoveRow]) -> dict[str, Path]:
    """One plan per instance, as `portico reassign` reads it."""
    plans: dict[str, dict[tuple[str, int], tuple[int, ...]]] = {}
    for move in moves:
        plans.setdefault(move.instance_id, {})[move.topic, move.partition] = tuple(move.replicas)
    written = {}
    for instance_id, plan in plans.items():
        folder.mkdir(parents=True, exist_ok=True)
        written[instance_id] = folder / f"{instance_id}.json"
        write_json(written[instance_id], encode(plan))
    return written
