"""`portico loadtest NAME [OPTION...]`: run one scenario, report, and end with the verdict.

`portico loadtest judge REPORT_DIR` holds a report to bounds again.
Exit codes: 0 passed, 1 failed or the run broke off, 2 wrong usage.
"""

import locust  # noqa: F401, I001 - first: gevent takes the place of sockets, threads and time in all that follows

import argparse
import json
import math
import signal
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ctl.bench.measure import context
from ctl.console_client import Console
from ctl.errors import EXIT_FAILED, CommandError, usage
from ctl.options import DEFAULT_DATA_DIR
from loadtests import connection_storm, console_users, many_tenants, noisy_neighbour, rate_sweep, soak
from loadtests.bounds import Baseline, BaselineFault, Figure, judge, kept, parsed
from loadtests.place import Place
from loadtests.report import FIGURES_FILE, Heading, Outcome, print_outcome, write
from loadtests.scenario import Site
from loadtests.stacks import Target, target
from runtime.config import environment
from runtime.process import write_json

SCENARIOS: Final[dict[str, ModuleType]] = {
    "noisy-neighbour": noisy_neighbour,
    "connection-storm": connection_storm,
    "many-tenants": many_tenants,
    "rate-sweep": rate_sweep,
    "soak": soak,
    "console-users": console_users,
}
_JUDGE: Final = "judge"
_TREE_BASELINES: Final = Path(__file__).resolve().parent / "baselines"
_COMMON: Final = frozenset(
    {"scenario", "data_dir", "own_stack", "backend", "bootstrap", "report_dir", "baseline", "update_baseline"}
)
"""Options that do not change what is measured."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="portico loadtest", description=(__doc__ or "").splitlines()[0])
    subparsers = parser.add_subparsers(dest="scenario", required=True, metavar="NAME")
    for name, module in SCENARIOS.items():
        summary = (module.__doc__ or "").strip().splitlines()[0]
        one = subparsers.add_parser(name, help=summary, description=summary)
        _add_common(one)
        module.add_options(one.add_argument_group("this scenario"))
    again = subparsers.add_parser(_JUDGE, help="hold a report to bounds again", description=_judge.__doc__)
    again.add_argument("report", type=Path, metavar="REPORT_DIR")
    _add_bounds(again)
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    _add_bounds(parser)
    add = parser.add_argument
    add("--own-stack", action="store_true", help="load a new stack, as without a running one")
    add("--workers", type=int, default=1, help="gateway processes of a new stack")
    add("--backend", metavar="HOST:PORT,...", help="load a new stack in front of this Apache Kafka")
    add(
        "--bootstrap",
        metavar="HOST,...",
        default="",
        help="hosts that may be loaded although they are not of this machine",
    )
    add("--report-dir", type=Path, help="default: DATA_DIR/loadtests/RUN/TIME")
    add(
        "--update-baseline",
        action="store_true",
        help="keep this run's figures as later runs' bounds, in the file of --baseline or DATA_DIR",
    )


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    data_dir = Path(environment().get("PORTICO_DATA_DIR", DEFAULT_DATA_DIR))
    add = parser.add_argument
    add("--data-dir", type=Path, default=data_dir, help="load the stack that runs on it; reports go there")
    add("--baseline", type=Path, metavar="FILE", help="bounds of this file, instead of all others")


def main() -> None:
    """Run the process."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was made is removed when it is stopped
    options = _parser().parse_args()
    try:
        passes = _judge(options) if options.scenario == _JUDGE else _run(options)
    except (CommandError, BaselineFault) as fault:
        print(f"portico: {fault}", file=sys.stderr)
        sys.exit(getattr(fault, "code", EXIT_FAILED))
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, RuntimeError) as error:
        print(f"portico: the load test broke off: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    sys.exit(0 if passes else EXIT_FAILED)


def _run(options: argparse.Namespace) -> bool:
    scenario = SCENARIOS[options.scenario]
    name = scenario.run_name(options) if hasattr(scenario, "run_name") else options.scenario
    chosen = {key: value for key, value in sorted(vars(options).items()) if key not in _COMMON}
    chosen["engine"] = "builtin" if options.backend is None else "apache"
    baselines = _baselines(options, name)  # before the load: a file that cannot be read is said at once
    with target(
        options.data_dir, own=options.own_stack, workers=options.workers, backend=options.backend
    ) as stack:
        outcome = _load(scenario, stack, options)
    verdict = judge(outcome.figures, baselines, chosen)
    directory = options.report_dir or _folder(options) / name / time.strftime("%Y%m%d-%H%M%S")
    page = write(directory, Heading(name, chosen, context()), outcome, verdict)
    print_outcome(outcome, verdict)
    print(f"report: {page}")
    if options.update_baseline:
        path = options.baseline or _kept_file(options, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, kept(outcome.figures, chosen), mode=0o600)
        print(f"later runs with these options are held to {path}")
    return verdict.passes


def _judge(options: argparse.Namespace) -> bool:
    """Hold the figures of a report to the bounds of a file, or to those that bind runs of its kind."""
    try:
        content = json.loads((options.report / FIGURES_FILE).read_text())
        name, chosen = content["scenario"], content["options"]
        figures = [
            Figure(each, math.nan if value is None else value) for each, value in content["figures"].items()
        ]
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise usage(f"{options.report} holds no report: {error}") from error
    options.update_baseline = False
    verdict = judge(figures, _baselines(options, name), chosen)
    print_outcome(Outcome(f"{name}, as measured", figures), verdict)
    return verdict.passes


def _load(scenario: ModuleType, stack: Target, options: argparse.Namespace) -> Outcome:
    named = [host for host in options.bootstrap.split(",") if host]
    with Console.at(stack.url, stack.key) as console, Place(console, named) as place:
        outcome: Outcome = scenario.run(Site(place, stack.data_dir), options)
        return outcome


def _folder(options: argparse.Namespace) -> Path:
    return Path(options.data_dir) / "loadtests"


def _kept_file(options: argparse.Namespace, name: str) -> Path:
    return _folder(options) / "baselines" / f"{name}.json"


def _baselines(options: argparse.Namespace, name: str) -> list[Baseline]:
    """Baselines that bind this run. Raises: BaselineFault."""
    if options.baseline is not None:
        found = _read(options.baseline, str(options.baseline))
        if found is None and not options.update_baseline:
            raise usage(f"there is no baseline {options.baseline}")
        return [] if found is None else [found]
    files = ((_TREE_BASELINES / f"{name}.json", "the tree"), (_kept_file(options, name), "this machine"))
    return [found for path, source in files if (found := _read(path, source)) is not None]


def _read(path: Path, source: str) -> Baseline | None:
    try:
        content: Any = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise BaselineFault(f"{path} is no JSON: {error}") from error
    return parsed(content, source)


if __name__ == "__main__":
    main()
