"""`portico kafka`: an Apache Kafka on this machine, for development and tests."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from contracts.upstream import MECHANISMS
from ctl.command import Commands
from ctl.errors import CommandError
from ctl.installation import CALLED
from ctl.kafka.jars import DEFAULT_VERSION
from ctl.output import Answer, print_table

if TYPE_CHECKING:
    from ctl.kafka.cluster import Wish

app = Commands()
DEFAULT_DIR: Final = Path("kafka-data")
KafkaDir = Annotated[Path, typer.Option("--data-dir", help="What the brokers keep.")]


@app.command("start")
def start(
    brokers: Annotated[
        int | None, typer.Option(metavar="N", help="1 to 9; default: as before, at first 1.")
    ] = None,
    version: Annotated[
        str | None, typer.Option(metavar="X.Y.Z", help=f"A release; default: as before, {DEFAULT_VERSION}.")
    ] = None,
    tls: Annotated[
        bool | None, typer.Option("--tls/--no-tls", help="A second listener with TLS; default: as before.")
    ] = None,
    sasl: Annotated[
        str | None,
        typer.Option(metavar="|".join(MECHANISMS), help="The same with a login; default: as before."),
    ] = None,
    data_dir: KafkaDir = DEFAULT_DIR,
    detach: Annotated[
        bool, typer.Option("--detach", help="Go on in the background; `portico kafka stop` stops it.")
    ] = False,
    greeting_fd: Annotated[int, typer.Option(hidden=True)] = -1,
) -> None:
    """Start a cluster (KRaft) on loopback; its jars come from Maven Central once. It serves without a login,
    and with --tls and --sasl at a second listener, for which certificates, a user and a password are made."""
    from ctl.kafka.cluster import Wish, chosen, kept
    from ctl.stack.layout import Layout
    from ctl.stack.packages import start_again_with
    from pipeline.errors import PipelineError
    from pipeline.java import find_java

    layout = Layout(data_dir.resolve())
    wish = Wish(brokers, version, tls, sasl)
    chosen(kept(layout), wish)  # what is wrong is said before anything is installed
    try:
        find_java()
    except PipelineError:
        start_again_with("pipeline")  # which brings a runtime
    if detach:
        from ctl.stack.detach import detach as keep_running

        keep_running(layout, "an Apache Kafka", sys.argv[1:], "portico kafka stop")
        return
    asyncio.run(_serve(data_dir.resolve(), wish, greeting_fd))


async def _serve(data_dir: Path, wish: "Wish", greeting_fd: int) -> None:
    from ctl.kafka.cluster import prepared
    from ctl.kafka.running import RunningKafka, greeting
    from ctl.stack.layout import Layout
    from ctl.stack.steps import Teller

    teller = Teller(greeting_fd=greeting_fd)
    layout = Layout(data_dir)
    kafka = RunningKafka(layout, teller)
    kafka.lock()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    teller.step("preparing Apache Kafka; its first start fetches 100 MB")
    cluster = await asyncio.to_thread(prepared, layout, wish)
    starting = asyncio.create_task(kafka.start(cluster))
    waiting = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not stopped.is_set():
            starting.result()
            option = "" if data_dir == DEFAULT_DIR.resolve() else f" --data-dir {data_dir}"
            end = f"`portico kafka stop{option}` stops it." if greeting_fd >= 0 else "Ctrl-C stops it."
            teller.greet(greeting(cluster, end))
            await waiting
            teller.say("stopping")
    finally:
        starting.cancel()
        await kafka.stop()


@app.command("stop")
def stop(data_dir: KafkaDir = DEFAULT_DIR) -> None:
    """Stop a cluster, detached or not, and wait until it has stopped."""
    from ctl.stack.keeper import stop_running
    from ctl.stack.layout import Layout

    stop_running(Layout(data_dir.resolve()), "Apache Kafka")


@app.command("status")
def status(data_dir: KafkaDir = DEFAULT_DIR) -> Answer:
    """Its brokers, and whether each answers; exit code 1 when one does not."""
    from ctl.kafka.cluster import addresses, kept
    from ctl.kafka.running import states
    from ctl.stack.keeper import running_pid
    from ctl.stack.layout import Layout

    layout = Layout(data_dir.resolve())
    found = kept(layout)
    if found is None:
        raise CommandError(f"{data_dir} holds no Apache Kafka: `{CALLED} kafka start` makes one")
    nodes = asyncio.run(states(layout, found.brokers))
    secured = addresses(layout, found.brokers, "secured") if found.entry else None
    whole = all(node.known == found.brokers for node in nodes)
    content = {
        "version": found.version,
        "bootstrap": addresses(layout, found.brokers, "kafka"),
        "entry": found.entry.protocol if found.entry else None,
        "secured_bootstrap": secured,
        "running": running_pid(layout) is not None,
        "brokers": [node._asdict() for node in nodes],
    }

    def show() -> None:
        print(f"Apache Kafka {found.version}: {content['bootstrap']}")
        if found.entry:
            print(f"{content['entry']}: {content['secured_bootstrap']}")
        rows = [(node.node_id, node.address, node.said) for node in nodes]
        print_table(("broker", "address", "state"), rows, empty="no brokers")

    return Answer(content, show, 0 if whole else 1)
