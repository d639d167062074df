"""Topics and partitions that a gateway makes are listed when it goes on: what comes next is counted beside
them."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from contracts.specs import BrokerAddress, ClusterSpec, Engine
from gateway import backend as gateway_backend
from gateway.backend import Backend
from runtime.upstream import Upstreams
from wire.build import build
from wire.codec import request_class, response_class

CREATE_TOPICS, CREATE_PARTITIONS, METADATA = 19, 37, 3
NONE, UNKNOWN, EXISTS = 0, 3, 36


class LaggingBackend(Backend):
    """Of a cluster whose brokers hear of new topics some questions later."""

    questions = 0
    hears_after = 4
    knows_names = False
    """Topics are there, with fewer partitions."""

    async def call(self, node_id: int, request: Any) -> Any:
        assert node_id == 1
        if request.__api_key__ == CREATE_TOPICS:
            errors = {topic.name: EXISTS if topic.name == "old" else NONE for topic in request.topics}
            topics = [{"name": name, "error_code": ErrorCode(code)} for name, code in errors.items()]
            return build(response_class(CREATE_TOPICS, request.__version__), {"topics": topics})
        if request.__api_key__ == CREATE_PARTITIONS:
            results = [{"name": topic.name, "error_code": ErrorCode.none} for topic in request.topics]
            return build(response_class(CREATE_PARTITIONS, request.__version__), {"results": results})
        names = [topic.name for topic in request.topics]
        self.questions += bool(names)
        is_late = self.questions < self.hears_after
        code = UNKNOWN if is_late and not self.knows_names else NONE
        answer = {
            "controller_id": 1,
            "topics": [
                {
                    "name": name,
                    "error_code": ErrorCode(code),
                    "partitions": [{"partition_index": at} for at in range(2 if is_late else 3)],
                }
                for name in names
            ],
        }
        return build(response_class(METADATA, request.__version__), answer)


def _backend(engine: Engine) -> LaggingBackend:
    brokers = (BrokerAddress(node_id=1, host="127.0.0.1", port=9092),)
    return LaggingBackend(
        ClusterSpec(revision=1, cluster_id="c", brokers=brokers, engine=engine), None, Upstreams(None)
    )


def _creation(*names: str, **more: Any) -> Any:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": -1} for name in names]
    return build(request_class(CREATE_TOPICS, 5), {"topics": topics, **more})


def _growth(*names: str, **more: Any) -> Any:
    topics = [{"name": name, "count": 3} for name in names]
    return build(request_class(CREATE_PARTITIONS, 1), {"topics": topics, **more})


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_backend, "_LOOK_S", 0.0)


async def test_an_apache_kafkas_brokers_are_asked_until_they_know() -> None:
    backend = _backend(Engine.APACHE)
    await backend.ask_controller(_creation("i.new", "old"))
    assert backend.questions == 4


async def test_added_partitions_are_waited_for() -> None:
    backend = _backend(Engine.APACHE)
    backend.knows_names = True
    await backend.ask_controller(_growth("i.grown"))
    assert backend.questions == 4


async def test_one_that_never_knows_holds_nobody_for_ever() -> None:
    backend = _backend(Engine.APACHE)
    backend.hears_after = 10_000
    await backend.ask_controller(_creation("i.new"))
    assert 4 < backend.questions < 100


@pytest.mark.parametrize(
    ("engine", "request_"),
    [
        (Engine.BUILTIN, _creation("i.new")),  # its controller counts for itself
        (Engine.BUILTIN, _growth("i.grown")),
        (Engine.APACHE, _creation("i.new", validate_only=True)),
        (Engine.APACHE, _growth("i.grown", validate_only=True)),
        (Engine.APACHE, _creation("old")),
    ],
)
async def test_nobody_is_asked_where_nothing_is_made(engine: Engine, request_: Any) -> None:
    backend = _backend(engine)
    await backend.ask_controller(request_)
    assert backend.questions == 0
