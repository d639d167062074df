"""Transactions of version 2 over an Apache Kafka: what it tells of them, and two tenants who copy at once."""

import uuid

import pytest

from tests.integration.broker.raw import RawClient, request
from tests.integration.stack import Stack
from tests.integration.transactions.java_copy import copy_beside_each_other

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]


def _bootstrap(stack: Stack) -> str:
    return str(stack.create_instance(f"i{uuid.uuid4().hex[:8]}")["bootstrap_servers"])


def test_its_features_are_told(stack: Stack) -> None:
    with RawClient(int(_bootstrap(stack).split(",")[0].rpartition(":")[2])) as raw:
        answer = raw.call(request(18, 4, client_software_name="raw", client_software_version="1"))
    told = {each.name: each.max_version_level for each in answer.finalized_features}
    assert told == {"group.version": 1, "transaction.version": 2}


def test_two_tenants_copy_exactly_once(stack: Stack) -> None:
    copy_beside_each_other({name: _bootstrap(stack) for name in ("one", "other")})
