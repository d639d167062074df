"""The CKafka-compatible endpoint against wrong, old and repeated requests; signatures are the SDK's own."""

import json
import time
from typing import Any

import httpx
import pytest
from tencentcloud.ckafka.v20190819 import ckafka_client, models

from tenants.ckafka import endpoint
from tenants.ckafka.action import Action, Call
from tenants.ckafka.actions import ACTIONS, UNSUPPORTED
from tenants.ckafka.listings import Nothing
from tenants.ckafka.request.rates import CALLS_PER_S
from tenants.console import Console

from .conftest import Caller
from .tencent import Signer


async def access_key(owner: Caller, role: str = "owner") -> dict[str, Any]:
    made = await owner("POST", "access-keys", json={"name": f"{role}-pair", "role": role})
    assert made.status_code == 201, made.text
    return dict(made.json())


@pytest.fixture
async def owner(operator: Caller) -> Caller:
    return await operator.tenant("acme")


@pytest.fixture
async def sdk(client: httpx.AsyncClient, owner: Caller) -> Signer:
    return Signer(client, await access_key(owner))


async def test_the_sdks_signature_is_understood(sdk: Signer, owner: Caller) -> None:
    made = await owner.order("shop")
    found = await sdk("DescribeInstances")
    [instance] = found["InstanceList"]
    assert found["TotalCount"] == 1
    assert instance["InstanceId"] == "ckafka-" + str(made["id"])[1:]
    assert (instance["InstanceName"], instance["Status"]) == ("shop", 0)


async def test_a_body_that_is_not_signed_is_taken_when_it_says_so(sdk: Signer) -> None:
    assert (await sdk("DescribeInstances", {"Limit": 5}, unsigned_payload=True))["TotalCount"] == 0


async def test_every_kind_of_wrong_signature(client: httpx.AsyncClient, sdk: Signer) -> None:
    async def code(change: dict[str, str | None], body: bytes = b"{}") -> str:
        headers, _ = sdk.signed("DescribeInstances")
        for name, value in change.items():
            if value is None:
                del headers[name]
            else:
                headers[name] = value
        return str((await sdk.send(headers, body))["Error"]["Code"])

    headers, _ = sdk.signed("DescribeInstances")
    good = headers["Authorization"]
    assert await code({}, b'{"Limit":1}') == "AuthFailure.SignatureFailure"
    last = "0" if good[-1] != "0" else "1"
    assert await code({"Authorization": good[:-1] + last}) == "AuthFailure.SignatureFailure"
    assert await code({"Host": "elsewhere"}) == "AuthFailure.SignatureFailure"
    assert await code({"X-TC-Timestamp": str(int(time.time()) - 7)}) == "AuthFailure.SignatureFailure"
    assert await code({"Authorization": good.replace("AKID", "AKIX")}) == "AuthFailure.SecretIdNotFound"
    for bad in (
        "",
        "Bearer x",
        good.replace("content-type;host", "host"),
        good.replace("content-type;host", "content-type;host;host"),
        good.replace("content-type;host", "content-type;host;x-absent"),
        good.replace("TC3-HMAC-SHA256", "TC3-HMAC-MD5"),
        good + "0",
        good.replace("Signature=", "Signature= x"),
    ):
        assert await code({"Authorization": bad}) == "AuthFailure.InvalidAuthorization", bad
    for name in ("X-TC-Action", "X-TC-Version", "X-TC-Timestamp"):
        assert await code({name: None}) == "MissingParameter"
    assert await code({"X-TC-Timestamp": "9" * 11}) == "AuthFailure.SignatureExpire"
    assert await code({"X-TC-Timestamp": "-1"}) == "InvalidParameterValue"
    assert await code({"X-TC-Token": "t"}) == "AuthFailure.TokenFailure"
    assert await code({"Content-Type": "multipart/form-data"}) == "UnsupportedProtocol"


async def test_clock_service_region_version_and_action(sdk: Signer) -> None:
    now_s = time.time()
    assert await sdk.code("DescribeInstances", at_s=now_s - 310) == "AuthFailure.SignatureExpire"
    assert await sdk.code("DescribeInstances", at_s=now_s + 310) == "AuthFailure.SignatureExpire"
    assert (await sdk("DescribeInstances", at_s=now_s - 280))["TotalCount"] == 0
    assert (await sdk("DescribeInstances", at_s=now_s + 280))["TotalCount"] == 0
    assert await sdk.code("DescribeInstances", service="cvm") == "AuthFailure.SignatureFailure"
    assert await sdk.code("DescribeInstances", region="ap-guangzhou") == "UnsupportedRegion"
    assert (await sdk("DescribeInstances", region=""))["TotalCount"] == 0
    assert await sdk.code("CreateUser") == "UnsupportedOperation"
    assert await sdk.code("DropEverything") == "InvalidAction"
    headers, body = sdk.signed("DescribeInstances")
    headers["X-TC-Version"] = "2017-03-12"
    assert (await sdk.send(headers, body))["Error"]["Code"] == "NoSuchVersion"


async def test_two_headers_of_a_kind_are_refused(client: httpx.AsyncClient, sdk: Signer) -> None:
    headers, body = sdk.signed("DescribeInstances")
    for name, value in (("X-TC-Action", "DescribeRegion"), ("Authorization", "x"), ("host", "console")):
        twice = [*headers.items(), (name, value)]
        answer = await client.post("/", headers=twice, content=body)
        assert answer.json()["Response"]["Error"]["Code"] == "InvalidParameter", name


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"[" * 60_000, "InvalidParameter"),
        (b'{"Limit":' * 7_000, "InvalidParameter"),
        (b"[]", "InvalidParameter"),
        (b'{"Limit":"\xff"}', "InvalidParameter"),
        (b'{"Limit":' + b"9" * 5_000 + b"}", "InvalidParameter"),
        (b'{"Limit":1e400}', "InvalidParameter"),
        (b'{"Limit":101}', "InvalidParameterValue"),
        (b'{"Limit":true}', "InvalidParameterValue"),
        (b'{"Limit":"5"}', "InvalidParameterValue"),
        (b'{"Status":[' + b"1," * 200 + b"1]}", "InvalidParameterValue"),
        (b'{"limit":5}', "UnknownParameter"),
        (b'{"Limit":5,"Sudo":true}', "UnknownParameter"),
        (b" " * (64 * 1024 + 1), "RequestSizeLimitExceeded"),
    ],
)
async def test_hostile_bodies(sdk: Signer, body: bytes, code: str) -> None:
    headers, _ = sdk.signed("DescribeInstances", unsigned_payload=True)
    assert (await sdk.send(headers, body))["Error"]["Code"] == code


async def test_a_missing_parameter_is_named(sdk: Signer) -> None:
    response = await sdk.send(*sdk.signed("DescribeInstanceAttributes"))
    assert response["Error"]["Code"] == "MissingParameter"
    assert "InstanceId" in response["Error"]["Message"]


async def test_a_large_body_of_a_stranger_is_not_read(client: httpx.AsyncClient, sdk: Signer) -> None:
    headers, _ = sdk.signed("DescribeInstances", unsigned_payload=True)
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        while True:
            sent += 16_384
            yield b" " * 16_384

    answer = await client.post("/", headers=headers, content=endless())
    assert answer.json()["Response"]["Error"]["Code"] == "RequestSizeLimitExceeded"
    assert sent <= endpoint.BODY_BYTES_MAX + 2 * 16_384


async def test_another_tenants_instance_is_not_there(
    client: httpx.AsyncClient, operator: Caller, sdk: Signer, owner: Caller
) -> None:
    made = await owner.order("shop")
    theirs, absent = "ckafka-" + str(made["id"])[1:], "ckafka-zzzzzzzzzzz"
    stranger = Signer(client, await access_key(await operator.tenant("other")))
    assert (await sdk("DescribeInstanceAttributes", {"InstanceId": theirs}))["InstanceName"] == "shop"
    for action in ("DescribeInstanceAttributes", "DescribeCkafkaVersion"):
        answers = [
            await stranger.send(*stranger.signed(action, {"InstanceId": one})) for one in (theirs, absent)
        ]
        assert {one["Error"]["Code"] for one in answers} == {"ResourceNotFound"}
        messages = [one["Error"]["Message"] for one in answers]
        assert messages[0].replace(theirs, "?") == messages[1].replace(absent, "?")
    for one in (theirs, absent):
        for action in ("DescribeInstances", "DescribeInstancesDetail"):
            assert (await stranger(action, {"InstanceId": one}))["TotalCount"] == 0
    for odd in ("shop", str(made["id"]), "ckafka-", "ckafka-00000000000", "ckafka-" + "a" * 500, "\x00"):
        assert await sdk.code("DescribeInstanceAttributes", {"InstanceId": odd}) == "ResourceNotFound", odd


async def test_a_pair_is_shown_once_belongs_to_its_tenant_and_dies_at_once(
    client: httpx.AsyncClient, operator: Caller, owner: Caller, plane: Console
) -> None:
    key = await access_key(owner)
    sdk = Signer(client, key)
    await sdk("DescribeInstances")
    [listed] = (await owner("GET", "access-keys")).json()["items"]
    assert listed["secret_id"] == key["secret_id"]
    assert listed["last_used_at"] is not None
    assert "secret_key" not in listed
    with plane.store.read() as connection:
        stored = str([list(row) for row in connection.exec_driver_sql("select * from access_keys")])
    assert key["secret_id"] in stored
    assert key["secret_key"] not in stored
    stranger = await operator.tenant("other")
    assert (await stranger("GET", "access-keys")).json()["items"] == []
    assert (await stranger("DELETE", f"access-keys/{key['secret_id']}")).status_code == 404
    assert (await owner("DELETE", f"access-keys/{key['secret_id']}")).status_code == 204
    assert await sdk.code("DescribeInstances") == "AuthFailure.SecretIdNotFound"
    entries = (await operator("GET", "audit?tenant=acme")).json()["items"]
    said = {(one["action"], one["subject"]) for one in entries}
    assert {("access-key.create", key["secret_id"]), ("access-key.delete", key["secret_id"])} <= said


async def test_no_access_key_is_an_operators(operator: Caller) -> None:
    refused = await operator("POST", "access-keys", json={"name": "all", "role": "operator"})
    assert refused.status_code == 403


async def test_a_key_of_another_deployment_secret_is_not_known(
    client: httpx.AsyncClient, sdk: Signer, plane: Console
) -> None:
    plane.access_keys._secret = "another"
    assert await sdk.code("DescribeInstances") == "AuthFailure.SecretIdNotFound"


async def test_calls_beyond_the_rate_are_refused_and_a_neighbour_is_not(
    client: httpx.AsyncClient, operator: Caller, sdk: Signer
) -> None:
    neighbour = Signer(client, await access_key(await operator.tenant("other")))
    answers = [await sdk.send(*sdk.signed("DescribeRegion")) for _ in range(3 * CALLS_PER_S)]
    codes = [one["Error"]["Code"] for one in answers if "Error" in one]
    assert set(codes) == {"RequestLimitExceeded"}
    assert 0 < len(codes) <= 2 * CALLS_PER_S
    assert await neighbour("DescribeRegion")
    assert (await sdk("DescribeInstances"))["TotalCount"] == 0, "other actions have tokens of their own"


async def test_an_answer_that_failed_tells_nothing(
    plane: Console, sdk: Signer, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_call: Call[Nothing]) -> Any:
        raise RuntimeError("secret detail")

    row = ACTIONS["DescribeRegion"]
    failing = Action(name=row.name, handle=fails, rest="", ignored=row.ignored)
    monkeypatch.setitem(ACTIONS, "DescribeRegion", failing)
    response = await sdk.send(*sdk.signed("DescribeRegion"))
    assert response["Error"]["Code"] == "InternalError"
    assert "secret" not in json.dumps(response)


async def test_other_methods_and_paths_are_the_consoles(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/health")).status_code == 200
    put = (await client.put("/", content=b"{}")).json()
    assert put["Response"]["Error"]["Code"] == "UnsupportedProtocol"
    assert (await client.get("/")).status_code == 200


def test_the_table_names_every_action_of_the_sdk_once() -> None:
    known = {name for name in vars(ckafka_client.CkafkaClient) if name[0].isupper()}
    assert len(known) > 100
    assert not ACTIONS.keys() & UNSUPPORTED.keys()
    assert known <= ACTIONS.keys() | UNSUPPORTED.keys()
    assert UNSUPPORTED.keys() <= known


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_every_parameter_of_the_sdk_is_used_ignored_or_refused(name: str) -> None:
    row = ACTIONS[name]
    request = getattr(models, f"{name}Request", None)
    if request is None:
        pytest.skip("the SDK has dropped this action")
    theirs = {field.removeprefix("_") for field in vars(request())}
    ours = {one.encode_name for one in endpoint.msgspec.structs.fields(row.params)}
    assert ours <= theirs | {"InstanceId"}, f"unknown to the SDK: {ours - theirs}"
    assert ours | set(row.ignored) | set(row.refused) >= theirs, theirs - ours
    assert set(row.ignored) | set(row.refused) <= theirs
    assert not ours & (set(row.ignored) | set(row.refused))


async def test_viewers_and_repeated_changes(client: httpx.AsyncClient, owner: Caller, sdk: Signer) -> None:
    made = await owner.order("shop")
    named = "ckafka-" + str(made["id"])[1:]
    viewer = Signer(client, await access_key(owner, "viewer"))
    assert (await viewer("DescribeInstanceAttributes", {"InstanceId": named}))["InstanceName"] == "shop"
    for action, row in ACTIONS.items():
        if row.changes:
            assert await viewer.code(action, {"InstanceId": named}) == "UnauthorizedOperation", action
    headers, body = sdk.signed("ModifyInstancePre", {"InstanceId": named, "DiskSize": 2})
    assert "Error" not in await sdk.send(headers, body)
    assert (await owner("GET", "instances/shop")).json()["capacity_bytes"] == 2 * 10**9
    await owner("PATCH", "instances/shop", json={"capacity_bytes": 3 * 10**9})
    repeated = await sdk.send(headers, body)
    assert repeated["Error"]["Code"] == "AuthFailure.SignatureExpire"
    assert (await owner("GET", "instances/shop")).json()["capacity_bytes"] == 3 * 10**9


async def test_a_change_is_audited_with_the_key_that_signed_it(
    sdk: Signer, owner: Caller, operator: Caller
) -> None:
    answer = await sdk("CreatePostPaidInstance", {"InstanceName": "bought", "DiskSize": 1, "Partition": 30})
    assert answer["Data"]["InstanceId"].startswith("ckafka-")
    [entry] = [
        one
        for one in (await operator("GET", "audit?tenant=acme")).json()["items"]
        if one["action"] == "instance.create"
    ]
    assert entry["actor"] == "access-key:owner-pair"
    assert entry["subject"] == "i" + answer["Data"]["InstanceId"].removeprefix("ckafka-")
    assert (await owner("GET", "instances/bought")).json()["whitelist"] == []


@pytest.mark.parametrize(
    ("action", "params", "code"),
    [
        ("CreatePostPaidInstance", {"InstanceName": "shop"}, "InvalidParameterValue.RepetitionValue"),
        ("CreatePostPaidInstance", {"InstanceName": "two words"}, "InvalidParameterValue"),
        ("CreatePostPaidInstance", {"InstanceName": "many", "InstanceNum": 2}, "InvalidParameterValue"),
        ("CreatePostPaidInstance", {"InstanceName": "big", "DiskSize": 2**31}, "InvalidParameterValue"),
        ("CreatePostPaidInstance", {"InstanceName": "big", "DiskSize": 999_999}, "LimitExceeded"),
        ("CreatePostPaidInstance", {"InstanceName": "x", "MultiZoneFlag": True}, "UnsupportedOperation"),
        ("RenewCkafkaInstance", {}, "FailedOperation"),
        ("ModifyInstanceAttributes", {"DeleteProtectionEnable": 1}, "UnsupportedOperation"),
        ("ModifyAccessPolicy", {"RouteId": 2}, "ResourceNotFound"),
        ("ModifyAccessPolicy", {"RouteId": 1, "IpWhitelist": [{"CidrBlock": "x"}]}, "InvalidParameterValue"),
        ("DescribeTopic", {}, "ServiceUnavailable"),
        ("CreateTopic", {"TopicName": "t", "PartitionNum": 0}, "InvalidParameterValue"),
        ("CreateTopic", {"TopicName": "a/b", "PartitionNum": 1}, "InvalidParameterValue"),
        ("CreateTopic", {"TopicName": "t", "PartitionNum": 1, "EnableAclRule": 1}, "UnsupportedOperation"),
        ("BatchModifyTopicAttributes", {"Topic": []}, "InvalidParameterValue"),
        ("BatchModifyTopicAttributes", {"Topic": [{"TopicName": "t", "X": 1}]}, "InvalidParameterValue"),
        ("ModifyGroupOffsets", {"Group": "g", "Strategy": 2, "Offset": -1}, "InvalidParameterValue"),
        ("ModifyGroupOffsets", {"Group": "g", "Strategy": 2}, "MissingParameter"),
        ("DescribeGroupInfo", {"GroupList": []}, "InvalidParameterValue"),
    ],
)
async def test_refusals_have_tencents_codes(
    sdk: Signer, owner: Caller, action: str, params: dict[str, Any], code: str
) -> None:
    made = await owner.order("shop")
    named = (
        {}
        if action.startswith("Create") and "Instance" in action
        else {"InstanceId": "ckafka-" + str(made["id"])[1:]}
    )
    assert await sdk.code(action, named | params) == code


async def test_every_action_on_anothers_instance_says_that_there_is_none(
    client: httpx.AsyncClient, operator: Caller, owner: Caller
) -> None:
    made = await owner.order("shop")
    theirs, absent = "ckafka-" + str(made["id"])[1:], "ckafka-zzzzzzzzzzz"
    stranger = Signer(client, await access_key(await operator.tenant("other")))
    others = {
        "TopicName": "t",
        "Topic": "t",
        "Group": "g",
        "GroupName": "g",
        "RouteId": 1,
        "PartitionNum": 1,
        "IpWhiteList": ["10.0.0.1"],
        "GroupList": ["g"],
        "Strategy": 1,
        "ShiftTimestamp": -1,
        "Partitions": [{"Partition": 0, "Offset": 0}],
    }
    asked = 0
    for action, row in ACTIONS.items():
        fields = {one.encode_name: one for one in endpoint.msgspec.structs.fields(row.params)}
        if "InstanceId" not in fields or not fields["InstanceId"].required:
            continue
        asked += 1
        needed = {name: others[name] for name, one in fields.items() if one.required and name in others}
        if action == "BatchModifyTopicAttributes":
            needed["Topic"] = [{"TopicName": "t"}]  # type: ignore[assignment]
        messages = []
        for one in (theirs, absent):
            error = (await stranger.send(*stranger.signed(action, needed | {"InstanceId": one})))["Error"]
            assert error["Code"] == "ResourceNotFound", (action, error)
            messages.append(error["Message"].replace(one, "?"))
        assert messages[0] == messages[1], action
    assert asked > 30
    assert (await owner("GET", "instances/shop")).json()["revision"] == made["revision"]
