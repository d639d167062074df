"""Tencent's own SDK and tccli drive a real stack; what they do is what the REST API then shows."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from tencentcloud.common.exception.tencent_cloud_sdk_exception import TencentCloudSDKException

from tenants.ckafka.actions import ACTIONS
from tests.integration.stack import Stack
from tests.integration.tenants.ckafka_clients import Sdk, Tccli, running_tccli
from tests.integration.tenants.ckafka_walk import Walk

DROPPED = {"DeleteTopicIpWhiteList"}
"""Actions that the SDK no longer has."""


@pytest.fixture(scope="module")
def key(stack: Stack) -> dict[str, Any]:
    made = stack.api("POST", "access-keys", {"name": "tests"})
    return dict(made)


@pytest.fixture(scope="module")
def sdk(stack: Stack, key: dict[str, Any]) -> Sdk:
    return Sdk(stack, key)


@pytest.fixture(scope="module")
def tccli(stack: Stack, key: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tccli]:
    with running_tccli(tmp_path_factory.mktemp("home"), stack, key) as running:
        yield running


def refused(sdk: Sdk, action: str, **params: Any) -> str:
    with pytest.raises(TencentCloudSDKException) as refusal:
        sdk(action, **params)
    return str(refusal.value.code)


def test_every_action_by_the_sdk(stack: Stack, key: dict[str, Any]) -> None:
    sdk = Sdk(stack, key)
    Walk(stack, sdk, f"sdk-{uuid.uuid4().hex[:8]}").all()
    assert sdk.called == ACTIONS.keys() - DROPPED
    assert len(sdk.called) >= 35


@pytest.mark.long
def test_every_action_by_tccli(stack: Stack, tccli: Tccli) -> None:
    Walk(stack, tccli, f"tccli-{uuid.uuid4().hex[:8]}").all()
    assert tccli.called == ACTIONS.keys() - DROPPED


def test_refusals_are_the_clients_own_errors(stack: Stack, sdk: Sdk, tccli: Tccli) -> None:
    unknown = {"InstanceId": "ckafka-zzzzzzzzzzz"}
    assert refused(sdk, "DescribeInstanceAttributes", **unknown) == "ResourceNotFound"
    failed = tccli.run("DescribeInstanceAttributes", **unknown)
    assert failed["code"] == 255
    assert "ResourceNotFound" in failed["errors"]
    assert refused(sdk, "CreateUser", **unknown, Name="a", Password="b") == "UnsupportedOperation"
    assert "UnsupportedOperation" in tccli.run("DescribeACL", **unknown, ResourceType=2)["errors"]


def test_a_revoked_or_wrong_key_is_refused(stack: Stack) -> None:
    key = stack.api("POST", "access-keys", {"name": "short-lived"})
    wrong = Sdk(stack, key | {"secret_key": "x" * 32})
    assert refused(wrong, "DescribeInstances") == "AuthFailure.SignatureFailure"
    good = Sdk(stack, key)
    good("DescribeInstances")
    stack.api("DELETE", f"access-keys/{key['secret_id']}")
    assert refused(good, "DescribeInstances") == "AuthFailure.SecretIdNotFound"
