"""Where drills are done: a stack of their own in a scratch directory, or one that runs on this machine."""

import contextlib
import json
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import sqlalchemy
from redis import Redis, RedisError
from sqlalchemy import text

from ctl.bench.servers import scratch_parent
from ctl.console_client import Console
from ctl.drills.catalogue import Drill
from ctl.drills.relay import Relay
from ctl.drills.site import Site
from ctl.errors import CommandError, usage
from ctl.stack.layout import Layout, free_port
from ctl.stack.own_stack import is_running, own_environment, started
from ctl.stack.processes import DATABASE_URL
from runtime.redis_link import VARIABLE as REDIS_URL
from tenants.store.database_url import DatabaseUrl

_ROOM_BYTES: Final = 2 * 10**9
_SMALL_DISK: Final = "48m"
_SESSION_TIMEOUT_MS: Final = 2000
_PORTS: Final = {"redis": 6379, "postgres": 5432}
_STORE_S: Final = 10.0


def running(data_dir: Path, drills: Sequence[Drill], *, among_tenants: bool) -> Site:
    """The stack that runs on a data directory. Raises: CommandError when drills may not be done to it."""
    layout = Layout(data_dir)
    if not is_running(data_dir):
        raise CommandError(f"no stack runs on {data_dir}: without --running a drill starts one of its own")
    stack = json.loads(layout.stack_file.read_text())
    site = Site(layout, str(stack["console"]), str(stack["api_key"]))
    for drill in drills:
        if drill.needs_own_stack:
            raise usage(f"'{drill.what}' needs a stack that the drill has started: leave --running out")
        if drill.brokers > len(stack["brokers"]):
            raise usage(
                f"'{drill.what}' needs {drill.brokers} brokers; this stack has {len(stack['brokers'])}"
            )
        if drill.brokers > 1 and not stack["pids"].get("zookeeper"):
            raise usage(f"'{drill.what}' needs a stack with a ZooKeeper of its own")
    with Console.at(site.url, site.key, "*") as console:
        others = len(console.all_items("instances"))
    if others and not among_tenants:
        raise usage(
            f"the stack on {data_dir} has {others} instances, whose clients would feel it: say "
            "--among-tenants when you mean it"
        )
    return site


@contextmanager
def own(drills: Sequence[Drill], urls: dict[str, str | None]) -> Iterator[Site]:
    """A new stack with what the drills need, stopped and removed at the end. `urls` of stores, by kind.

    Raises: CommandError.
    """
    stores = {drill.store for drill in drills if drill.store is not None}
    brokers = max(drill.brokers for drill in drills)
    has_small_disks = any(drill.needs_small_disks for drill in drills)
    with contextlib.ExitStack() as stack:
        parent = scratch_parent(_ROOM_BYTES)
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-drill-", dir=parent)))
        arguments = [*("--console", f"127.0.0.1:{free_port()}", "--metrics", "127.0.0.1:0", "--workers", "2")]
        arguments += ["--deletion-grace", "0", "--session-timeout-ms", str(_SESSION_TIMEOUT_MS)]
        variables = own_environment()
        relays: dict[str, Relay] = {}
        for kind in sorted(stores):
            url = urls.get(kind)
            if url is None:
                raise usage(
                    f"this drill cuts the way to a {kind.capitalize()}: name an empty one, --{kind}-url URL"
                )
            stack.enter_context({"redis": _scratch_redis, "postgres": _scratch_postgres}[kind](url))
            parts = urlsplit(url)
            relay = stack.enter_context(Relay(parts.hostname or "127.0.0.1", parts.port or _PORTS[kind]))
            relays[kind] = relay
            user, at, _host = parts.netloc.rpartition("@")
            through = parts._replace(netloc=f"{user}{at}127.0.0.1:{relay.port}").geturl()
            variables[{"redis": REDIS_URL, "postgres": DATABASE_URL}[kind]] = through
        if brokers > 1:
            arguments += ["--brokers", str(brokers)]
        prefix = _small_disks(Layout(scratch), brokers) if has_small_disks else ()
        stack.enter_context(started(scratch, *arguments, prefix=prefix, variables=variables))
        facts = json.loads(Layout(scratch).stack_file.read_text())
        yield Site(Layout(scratch), str(facts["console"]), str(facts["api_key"]), relays)


@contextmanager
def _scratch_redis(url: str) -> Iterator[None]:
    """A store that is empty, and is again at the end. Raises: CommandError."""
    try:
        with Redis.from_url(url, socket_timeout=_STORE_S) as client:
            if client.dbsize():
                raise usage(
                    "this Redis database is not empty: drills need one of their own, such as redis://.../15"
                )
            yield
            client.flushdb()
    except RedisError as error:
        raise CommandError(f"Redis does not answer: {error}") from error


@contextmanager
def _scratch_postgres(url: str) -> Iterator[None]:
    try:
        engine = sqlalchemy.create_engine(DatabaseUrl.parse(url).url)
        with engine.connect() as connection:
            if sqlalchemy.inspect(connection).get_table_names():
                raise usage("this Postgres database is not empty: drills need one of their own")
        try:
            yield
        finally:
            with engine.begin() as connection:
                connection.execute(text("DROP SCHEMA public CASCADE"))
                connection.execute(text("CREATE SCHEMA public"))
            engine.dispose()
    except ValueError as error:
        raise usage(str(error)) from error
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise CommandError(f"Postgres cannot be used: {error}") from error


def _small_disks(layout: Layout, brokers: int) -> tuple[str, ...]:
    """A prefix for a command, which then sees a small disk at each broker's logs. Raises: CommandError."""
    directories = [layout.broker_dir(node_id).resolve() / "logs" for node_id in range(1, brokers + 1)]
    for directory in directories:
        directory.mkdir(parents=True)
    mounts = " && ".join(
        f"mount -t tmpfs -o size={_SMALL_DISK} tmpfs {shlex.quote(str(directory))}"
        for directory in directories
    )
    prefix = ("unshare", "-rm", "sh", "-c", f'{mounts} && exec "$@"', "sh")
    if shutil.which("unshare") is None:
        raise CommandError("this drill mounts small disks, which needs `unshare` of util-linux")
    tried = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        said = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise CommandError(f"this drill mounts small disks, which is not allowed here: {said}")
    return prefix
