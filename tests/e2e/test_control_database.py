"""The control plane's database is lost, restored from an older copy, or exchanged: no data is lost, and there
is a way back, which docs/operations.md describes. Real processes; every drill restarts brokers in between."""

import os
import shutil
import signal
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from master.quota.leases import TERM_FACTOR
from tests.e2e.records import create_topic, read_all
from tests.e2e.test_commands import answer, portico
from tests.integration.stack import Stack, running_stack

_FILES = ("portico.db", "portico.db-wal", "portico.db-shm")


@pytest.fixture
def own_stack(tmp_path: Path) -> Iterator[Stack]:
    with running_stack(tmp_path / "data", "--workers", "1") as running:
        yield running


def _until(holds: Callable[[], Any], within_s: float = 60.0) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.1)
    return found


class Filled:
    """An instance with records and a committed offset, and what its data looked like on the disk."""

    def __init__(self, stack: Stack, name: str) -> None:
        self._stack = stack
        made = stack.create_instance(name)
        self.id, self.bootstrap = str(made["id"]), str(made["bootstrap_servers"])
        create_topic(self.bootstrap, "numbers", 2)
        self.produce(0, 50)
        consumer = self._consumer()
        consumer.commit(offsets=[TopicPartition("numbers", 0, 17)], asynchronous=False)
        consumer.close()
        self.files = self._files()
        assert self.files

    def produce(self, first: int, last: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        for number in range(first, last):
            producer.produce("numbers", str(number).encode(), partition=0)
        assert producer.flush(30) == 0

    def _consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self.bootstrap, "group.id": "readers"})

    def _files(self) -> dict[str, int]:
        """Segment files of its partitions and their sizes, on all brokers."""
        found = self._stack.data_dir.glob(f"broker-*/logs/{self.id}.*/*.log")
        return {str(path.relative_to(self._stack.data_dir)): path.stat().st_size for path in found}

    def check_untouched(self) -> None:
        assert self._files() == self.files

    def check_whole(self, count: int = 50) -> None:
        """Records, and where the group stopped, at the address it always had."""
        assert read_all(self.bootstrap, "numbers", 0) == list(range(count))
        consumer = self._consumer()
        [committed] = consumer.committed([TopicPartition("numbers", 0)], timeout=30)
        consumer.close()
        assert committed.offset == 17

    def is_reachable(self) -> bool:
        host, _, port = self.bootstrap.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=5):
                return True
        except ConnectionRefusedError:
            return False

    def listed(self, what: str) -> Any:
        """Its entry in a listing of the API, None when there is none."""
        items = self._stack.api("GET", what)["items"]
        return next((one for one in items if one["id"] == self.id), None)


def _copy(stack: Stack, target: Path) -> None:
    """A copy of the database, as a nightly backup makes it."""
    with (
        sqlite3.connect(stack.data_dir / "control" / "portico.db") as database,
        sqlite3.connect(target) as copy,
    ):
        database.backup(copy)


def _exchange(stack: Stack, other: Path | None, keep: Path | None = None) -> None:
    """Give the control plane another database, or none, while brokers and gateways run on."""
    directory = stack.data_dir / "control"
    pid = stack.facts["pids"]["control"][0]
    os.kill(pid, signal.SIGSTOP)
    if keep is not None:
        _copy(stack, keep)
    for name in _FILES:
        (directory / name).unlink(missing_ok=True)
    if other is not None:
        shutil.copyfile(other, directory / "portico.db")
    os.kill(pid, signal.SIGKILL)
    stack.wait_for_restart("control", pid)
    _until(lambda: _answers(stack))


def _answers(stack: Stack) -> bool:
    try:
        health = stack.api("GET", "health")
    except (httpx.HTTPError, AssertionError):
        return False
    return bool(health["brokers_live"] and health["gateways"])


def _restart_data_plane(stack: Stack) -> None:
    for group in ("brokers", "gateways"):
        killed = stack.kill(group)
        stack.wait_for_restart(group, killed)


def _told(instance: Filled) -> Any:
    """Absent, as a broker that holds its records tells, and by the name that whoever has its spec tells."""
    found = instance.listed("absent-instances")
    is_whole = found and found["stored_bytes"] and "broker-1" in found["holders"] and found["name"]
    return found if is_whole else None


def _serves(stack: Stack, instance: Filled) -> None:
    stack.wait_for_state(instance.id, "running", within_s=60)
    _until(instance.is_reachable)


def _lease_epoch(stack: Stack, instance: Filled) -> int:
    """Of the lease that the broker applies; 0: it applies none."""
    brokers = stack.api("GET", f"instances/{instance.id}/quota")["brokers"]
    return next((each["lease_epoch"] for each in brokers if each["on_lease"]), 0)


def _lose_masters_database(stack: Stack, instance: Filled) -> None:
    """Leases that the broker remembers are newer than all that the new database knows."""
    before = _until(lambda: _lease_epoch(stack, instance))
    pid = stack.facts["pids"]["control"][0]
    os.kill(pid, signal.SIGSTOP)
    for path in (stack.data_dir / "control").glob("master.db*"):
        path.unlink()
    os.kill(pid, signal.SIGKILL)
    stack.wait_for_restart("control", pid)
    _until(lambda: _answers(stack) and _lease_epoch(stack, instance) // TERM_FACTOR > before // TERM_FACTOR)


@pytest.mark.long
def test_the_masters_database_is_lost_and_then_the_consoles(own_stack: Stack) -> None:
    stack = own_stack
    kept = Filled(stack, "kept")
    _lose_masters_database(stack, kept)
    kept.check_whole()
    _exchange(stack, None)
    absent = _until(lambda: _told(kept))
    assert (absent["name"], absent["tenant"], absent["partitions"]) == ("kept", "default", 2)
    _until(lambda: not kept.is_reachable())
    _restart_data_plane(stack)
    _until(lambda: _told(kept))
    assert not kept.is_reachable(), "not served from the cache either"
    kept.check_untouched()
    doctor = portico(stack, "doctor", "--json")
    assert doctor.returncode == 1
    assert kept.id in doctor.stdout and "absent: not served" in doctor.stdout
    assert [one["id"] for one in answer(stack, "instance", "list", "--absent")] == [kept.id]
    other = stack.create_instance("other")
    assert other["bootstrap_servers"] != kept.bootstrap, "its clients may still call there"
    adopted = answer(stack, "instance", "adopt", kept.id, "--tenant", "default")
    assert (adopted["id"], adopted["bootstrap_servers"]) == (kept.id, kept.bootstrap)
    _serves(stack, kept)
    kept.check_untouched()
    kept.check_whole()
    kept.produce(50, 60)
    kept.check_whole(60)
    assert answer(stack, "instance", "list", "--absent") == []


def test_the_database_is_restored_from_an_older_copy(own_stack: Stack, tmp_path: Path) -> None:
    stack, copy = own_stack, tmp_path / "copy.db"
    before, deleted_later = Filled(stack, "before"), Filled(stack, "deleted-later")
    _copy(stack, copy)
    created_later = Filled(stack, "created-later")
    answer(stack, "instance", "delete", deleted_later.id)
    _until(lambda: deleted_later.listed("deleted-instances"))
    _until(lambda: not deleted_later.is_reachable())
    deleted_later.check_untouched()
    _exchange(stack, copy)
    _serves(stack, before)
    _serves(stack, deleted_later)  # the copy knows nothing of its deletion
    absent = _until(lambda: _told(created_later))
    assert absent["name"] == "created-later"
    _restart_data_plane(stack)
    for each in (before, deleted_later, created_later):
        each.check_untouched()
    for each in (before, deleted_later):
        _serves(stack, each)
        each.check_whole()
    answer(stack, "instance", "adopt", created_later.id, "--tenant", "default")
    _serves(stack, created_later)
    created_later.check_whole()


@pytest.mark.long
def test_the_control_plane_is_pointed_at_another_database_and_back(own_stack: Stack, tmp_path: Path) -> None:
    stack, own = own_stack, tmp_path / "own.db"
    served, gone = Filled(stack, "served"), Filled(stack, "gone")
    answer(stack, "instance", "delete", gone.id)
    _exchange(stack, None, keep=own)
    _until(lambda: _told(served))
    _until(lambda: _told(gone))
    _restart_data_plane(stack)
    for each in (served, gone):
        each.check_untouched()
    _exchange(stack, own)
    _serves(stack, served)
    served.check_whole()
    assert answer(stack, "instance", "list", "--absent") == []
    # deleted in this feed, but the brokers have followed another one since: an operator decides
    _until(lambda: (found := gone.listed("deleted-instances")) and found["stored_bytes"])
    gone.check_untouched()
    answer(stack, "instance", "undelete", gone.id)
    _serves(stack, gone)
    gone.check_whole()


@pytest.mark.long
def test_a_deletion_of_before_the_copy_is_no_order_after_it(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with running_stack(tmp_path / "data", "--workers", "1", "--deletion-grace", "15s") as stack:
        back = Filled(stack, "back")
        answer(stack, "instance", "delete", back.id)
        _copy(stack, copy)
        answer(stack, "instance", "undelete", back.id)
        _serves(stack, back)
        _exchange(stack, copy)
        # its grace is over by the copy's word, and brokers know that it was taken back since
        waits_for = _until(lambda: (found := back.listed("deleted-instances")) and found["waits_for"])
        assert "restored" in waits_for
        _restart_data_plane(stack)
        back.check_untouched()
        assert back.listed("deleted-instances")["state"] == "deleted"
        answer(stack, "instance", "undelete", back.id)
        _serves(stack, back)
        back.check_whole()


@pytest.mark.long
def test_a_broker_that_is_away_is_waited_for_and_purges_when_it_is_back(tmp_path: Path) -> None:
    arguments = ("--workers", "1", "--deletion-grace", "0", "--hang-timeout-ms", "0")
    with running_stack(tmp_path / "data", *arguments, brokers=3) as stack:
        gone, neighbour = Filled(stack, "gone"), Filled(stack, "neighbour")
        replicas = sorted(stack.data_dir.glob(f"broker-*/logs/{gone.id}.numbers-*"))
        assert len(replicas) == 6
        paused = stack.signal_broker(3, signal.SIGSTOP)
        try:
            answer(stack, "instance", "delete", gone.id)
            waits_for = _until(lambda: (found := gone.listed("deleted-instances")) and found["waits_for"])
            while "started" in waits_for:  # it has just: first it must learn who follows it
                waits_for = _until(lambda: gone.listed("deleted-instances")["waits_for"])
            assert "broker-3" in waits_for or "broker 3" in waits_for
            assert all(path.is_dir() for path in replicas)
        finally:
            os.kill(paused, signal.SIGCONT)
        _until(lambda: not any(path.exists() for path in replicas), within_s=120)
        _until(lambda: gone.listed("deleted-instances") is None)
        neighbour.check_whole()


def test_deleting_taking_back_and_purging(own_stack: Stack) -> None:
    stack = own_stack
    one, other = Filled(stack, "one"), Filled(stack, "other")
    for each in (one, other):
        told = answer(stack, "instance", "delete", each.id)
        assert told["purge_after"]
    _restart_data_plane(stack)
    for each in (one, other):
        _until(lambda each=each: (found := each.listed("deleted-instances")) and found["stored_bytes"])
        assert not each.is_reachable()
        each.check_untouched()
    taken = stack.create_instance("one")
    refused = portico(stack, "instance", "undelete", one.id)
    assert refused.returncode == 1 and "--name" in refused.stderr
    back = answer(stack, "instance", "undelete", one.id, "--name", "one-again")
    assert (back["id"], back["bootstrap_servers"]) == (one.id, one.bootstrap)
    assert taken["bootstrap_servers"] != one.bootstrap
    one.check_whole()
    assert portico(stack, "instance", "purge", other.id).returncode == 2, "it says --yes"
    answer(stack, "instance", "purge", other.id, "--yes")
    _until(lambda: not list(stack.data_dir.glob(f"broker-*/logs/{other.id}.*")))
    _until(lambda: other.listed("deleted-instances") is None)
    one.check_untouched()
