"""How many partitions may be created and deleted through the console, and who may order more."""

from typing import Any

import pytest

from contracts.specs import Limits
from tenants.rules.errors import Conflict, TooMany, Unavailable
from tenants.rules.model import Instance
from tenants.usecases.mutation_rates import MutationRates
from tests.unit.tenants.conftest import ORDER, Caller

A, B = "iaaaaaaaaaaa", "ibbbbbbbbbbb"


class Made:
    """A console's rates at a time that only tests move."""

    def __init__(self) -> None:
        self.now_s = 1.0
        self.rates = MutationRates(lambda: int(self.now_s * 1e9))

    def __call__(self, partitions: int, instance_id: str = A, fault: Exception | None = None) -> None:
        limits = Limits(controller_mutation_rate_max=10)
        with self.rates.charged(_instance(instance_id, limits), partitions):
            if fault is not None:
                raise fault


def _instance(instance_id: str, limits: Limits) -> Instance:
    known: Any = dict.fromkeys(Instance.__dataclass_fields__)
    return Instance(**known | {"id": instance_id, "limits": limits})


def test_who_is_ahead_of_the_rate_is_told_when_to_come_again() -> None:
    made = Made()
    made(110)
    made(15)
    with pytest.raises(TooMany) as refused:
        made(1)
    assert refused.value.retry_after_s == 2 and "try again in 2 seconds" in refused.value.detail
    made(110, B)
    made.now_s += 2
    made(1)


def test_what_is_refused_costs_nothing_and_what_may_be_done_all_the_same_does() -> None:
    made = Made()
    with pytest.raises(Conflict):
        made(500, fault=Conflict("it is there"))
    made(110)
    with pytest.raises(Unavailable):
        made(10, fault=Unavailable("nobody answers"))
    with pytest.raises(TooMany):
        made(1)


async def test_more_than_everybody_has_is_the_operators_to_give(operator: Caller) -> None:
    owner = await operator.tenant("acme")

    def wanted(rate: int) -> dict[str, object]:
        return {"limits": {"controller_mutation_rate_max": rate}}

    refused = await owner("POST", "instances", json={**ORDER, **wanted(51)})
    assert refused.status_code == 409
    assert refused.json()["errors"] == [
        {"field": "limits.controller_mutation_rate_max", "message": "at most 50: operators give more"}
    ]
    made = (await owner("POST", "instances", json={**ORDER, **wanted(20)})).json()
    path = f"instances/{made['id']}"
    assert (await owner("PATCH", path, json=wanted(51))).status_code == 409
    assert (await operator("PATCH", path, json=wanted(500))).status_code == 200
    kept = (await owner("PATCH", path, json={"limits": {"connections_max": 7}})).json()
    assert kept["limits"]["controller_mutation_rate_max"] == 500
    assert (await owner("PATCH", path, json=wanted(400))).status_code == 200
