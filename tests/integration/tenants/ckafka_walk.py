"""What a tenant does with CKafka's actions, one after the other; after each, what the REST API shows.

`drive` is Tencent's SDK or tccli: it takes an action and its parameters and gives `Result`.
"""

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.integration.stack import Stack

Drive = Callable[..., Any]


def eventually(what: Callable[[], Any], within_s: float = 60.0) -> Any:
    """What it gives once that is true."""
    deadline = time.monotonic() + within_s
    while not (found := what()):
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.2)
    return found


class Walk:
    """One tenant's day with one driver."""

    def __init__(self, stack: Stack, drive: Drive, name: str) -> None:
        self._stack = stack
        self._drive = drive
        self._name = name
        self._id = ""

    @property
    def _own(self) -> str:
        return "i" + self._id.removeprefix("ckafka-")

    def _rest(self, path: str = "", **more: Any) -> Any:
        return self._stack.api("GET", f"instances/{self._own}{path}", **more)

    def _do(self, action: str, **params: Any) -> Any:
        return self._drive(action, InstanceId=self._id, **params)

    def _status(self) -> int:
        [one] = self._do("DescribeInstances")["InstanceList"]
        return int(one["Status"])

    # --- instances --------------------------------------------------------------------------------

    def order(self) -> None:
        """An instance, with tasks to wait for."""
        [region] = self._drive("DescribeRegion")
        assert region["RegionName"] == "local"
        [zone] = self._drive("DescribeCkafkaZone")["ZoneList"]
        network = {"VpcId": "vpc-1", "SubnetId": "subnet-1", "ZoneId": int(zone["ZoneId"])}
        sizes = {"BandWidth": 20, "DiskSize": 1, "Partition": 30, "MsgRetentionTime": 60}
        made = self._drive("CreatePostPaidInstance", InstanceName=self._name, **network, **sizes)["Data"]
        self._id = made["InstanceId"]
        flow_id = made["FlowId"]
        eventually(lambda: self._drive("DescribeTaskStatus", FlowId=flow_id)["Status"] == 0)
        eventually(lambda: self._status() == 1)
        shown = self._rest()
        assert shown["state"] == "running"
        assert shown["produce_rate_bytes_per_s"] == shown["consume_rate_bytes_per_s"] == 20_000_000
        assert shown["capacity_bytes"] == 10**9
        assert shown["limits"]["partitions_max"] == 30
        assert shown["limits"]["retention_ms_max"] == 3_600_000
        assert (shown["whitelist"], shown["allow_all"]) == ([], False), "nobody may connect yet"

    def show(self) -> None:
        """Listings and attributes say what the REST API says."""
        shown = self._rest()
        [same] = self._drive("DescribeTypeInstances", SearchWord=self._name)["InstanceList"]
        assert same["InstanceId"] == self._id
        filters = [{"Name": "InstanceId", "Values": [self._id]}]
        [detail] = self._drive("DescribeInstancesDetail", Filters=filters)["InstanceList"]
        assert f"{detail['Vip']}:{detail['Vport']}" == shown["bootstrap_servers"]
        assert (detail["Bandwidth"], detail["DiskSize"]) == (160, 1)
        attributes = self._do("DescribeInstanceAttributes")
        assert attributes["MaxMessageByte"] == shown["limits"]["message_bytes_max"]
        assert attributes["MsgRetentionTime"] == 60
        assert attributes["RemainingPartitions"] == 30
        assert self._do("DescribeCkafkaVersion")["KafkaVersion"] == attributes["Version"]

    def change(self) -> None:
        """Sizes up and down, name and limits."""
        self._do("ModifyInstancePre", BandWidth=40, DiskSize=2, Partition=50)
        shown = self._rest()
        assert (shown["produce_rate_bytes_per_s"], shown["capacity_bytes"]) == (40_000_000, 2 * 10**9)
        self._do("InstanceScalingDown", UpgradeStrategy=1, BandWidth=30, DiskSize=1, Partition=40)
        shown = self._rest()
        assert (shown["consume_rate_bytes_per_s"], shown["capacity_bytes"]) == (30_000_000, 10**9)
        assert shown["limits"]["partitions_max"] == 40
        changed = self._do(
            "ModifyInstanceAttributes",
            InstanceName=f"{self._name}-b",
            MaxMessageByte=200_000,
            MsgRetentionTime=120,
            Config={"AutoCreateTopicEnable": True},
        )
        assert changed["Data"]["FlowId"] > 0
        shown = self._rest()
        assert (shown["name"], shown["auto_create_topics"]) == (f"{self._name}-b", True)
        assert shown["limits"]["message_bytes_max"] == 200_000
        assert shown["limits"]["retention_ms_max"] == 7_200_000

    def isolate(self) -> None:
        """Suspended, and back."""
        self._do("IsolatedInstancePre")
        assert self._rest()["state"] == "suspended"
        assert self._status() == 5
        self._do("RenewCkafkaInstance")
        eventually(lambda: self._status() == 1)

    def routes(self) -> None:
        """Who may connect, and where to."""
        entries = [{"CidrBlock": "127.0.0.1/32"}, {"CidrBlock": "10.1.2.3/8"}]
        self._do("ModifyAccessPolicy", RouteId=1, IpWhitelist=entries)
        assert self._rest("/whitelist") == {"allow_all": False, "cidrs": ["127.0.0.1/32", "10.0.0.0/8"]}
        policy = self._do("DescribeAccessPolicy", RouteId=1)
        assert [one["CidrBlock"] for one in policy["IpWhitelist"]] == ["127.0.0.1/32", "10.0.0.0/8"]
        [route] = self._do("DescribeRoute")["Routers"]
        [vip] = route["VipList"]
        assert f"{vip['Vip']}:{vip['Vport']}" == self._rest()["bootstrap_servers"]
        assert len(route["BrokerVipList"]) == 1
        eventually(lambda: self._rest()["applied"])

    def delete(self) -> None:
        """Both kinds of instances."""
        network = {"VpcId": "vpc-1", "SubnetId": "subnet-1", "ZoneId": 1}
        bought = {"Period": "1m", "InstanceType": 1, "BandWidth": 20, "DiskSize": 1, "Partition": 30}
        made = self._drive("CreateInstancePre", InstanceName=f"{self._name}-pre", **network, **bought)
        second = made["Data"]["InstanceId"]
        self._drive("DeleteInstancePre", InstanceId=second)
        own = "i" + second.removeprefix("ckafka-")
        self._stack.api("GET", f"instances/{own}", expect=404)
        self._do("DeleteInstancePost")
        self._rest(expect=404)

    # --- topics -----------------------------------------------------------------------------------

    def topics(self) -> None:
        """Create, show, change, whitelist, delete."""
        made = self._do(
            "CreateTopic",
            TopicName="orders",
            PartitionNum=2,
            ReplicaNum=1,
            EnableWhiteList=1,
            IpWhiteList=["127.0.0.1"],
            RetentionMs=600_000,
            CleanUpPolicy="compact, delete",
        )
        shown = self._rest("/topics/orders")
        configs = {one["name"]: one["value"] for one in shown["configs"]}
        assert (configs["retention.ms"], configs["cleanup.policy"]) == ("600000", "compact,delete")
        assert shown["whitelist"] == ["127.0.0.1/32"]
        bootstrap = {"bootstrap.servers": self._rest()["bootstrap_servers"]}
        assert len(AdminClient(bootstrap).list_topics(timeout=20).topics["orders"].partitions) == 2
        self._do("CreateTopic", TopicName="plain", PartitionNum=1, ReplicaNum=1, Note="a note", Tags=[])
        self._show_topics(made["TopicId"])
        self._do("CreatePartition", TopicName="orders", PartitionNum=3)
        assert len(self._rest("/topics/orders")["partitions"]) == 3
        self._change_topics()
        self._do("DeleteTopic", TopicName="plain")
        self._rest("/topics/plain", expect=404)

    def _show_topics(self, topic_id: str) -> None:
        assert [one["TopicName"] for one in self._do("DescribeTopic")["TopicList"]] == ["orders", "plain"]
        page = self._do("DescribeTopicDetail", OrderBy="PartitionNum", OrderType=1, Limit=1)
        assert page["TotalCount"] == 2
        [detail] = page["TopicList"]
        assert (detail["TopicId"], detail["PartitionNum"], detail["ReplicaNum"]) == (topic_id, 2, 1)
        assert (detail["EnableWhiteList"], detail["IpWhiteListCount"]) == (True, 1)
        assert detail["Config"]["Retention"] == 600_000
        attributes = self._do("DescribeTopicAttributes", TopicName="orders")
        assert attributes["IpWhiteList"] == ["127.0.0.1/32"]
        assert [one["Partition"] for one in attributes["Partitions"]] == [0, 1]

    def _change_topics(self) -> None:
        self._do("CreateTopicIpWhiteList", TopicName="orders", IpWhiteList=["10.0.0.1"])
        entries = self._rest("/topics/orders/whitelist")
        assert entries["cidrs"] == ["127.0.0.1/32", "10.0.0.1/32"]
        change = {"MaxMessageBytes": 5000, "EnableWhiteList": 0, "MinInsyncReplicas": 1}
        self._do("ModifyTopicAttributes", TopicName="orders", **change)
        shown = self._rest("/topics/orders")
        configs = {one["name"]: one["value"] for one in shown["configs"]}
        assert (configs["max.message.bytes"], shown["whitelist"]) == ("5000", None)
        batch = [{"TopicName": "plain", "RetentionMs": 700_000, "PartitionNum": 2}, {"TopicName": "absent"}]
        outcomes = self._do("BatchModifyTopicAttributes", Topic=batch)
        assert [one["ReturnCode"] for one in outcomes] == ["0", "ResourceNotFound"]
        plain = self._rest("/topics/plain")
        assert len(plain["partitions"]) == 2
        assert {"name": "retention.ms", "value": "700000"}.items() <= next(
            one for one in plain["configs"] if one["name"] == "retention.ms"
        ).items()

    # --- groups -----------------------------------------------------------------------------------

    def groups(self) -> None:
        """A real consumer's group, and offsets set without it."""
        bootstrap = self._rest()["bootstrap_servers"]
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(10):
            producer.produce("orders", key=str(number), value=str(number), partition=0)
        assert producer.flush(30) == 0
        replicas = self._do("DescribeTopicSyncReplica", TopicName="orders")
        ends = {one["Partition"]: one["EndOffset"] for one in replicas["TopicInSyncReplicaList"]}
        assert ends == {"0": 10, "1": 0, "2": 0}
        self._with_a_member(bootstrap)
        self._offsets()

    def _with_a_member(self, bootstrap: str) -> None:
        settings = {"group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer(settings | {"bootstrap.servers": bootstrap, "client.id": "walker"})
        try:
            consumer.subscribe(["orders"])
            for _ in range(10):
                assert eventually(lambda: consumer.poll(1)).error() is None
            consumer.commit(asynchronous=False)
            [group] = self._do("DescribeGroup", SearchWord="read")["GroupList"]
            assert group["Group"] == "readers"
            [info] = self._do("DescribeGroupInfo", GroupList=["readers"])
            [member] = info["Members"]
            assert (info["State"], member["ClientId"]) == ("Stable", "walker")
            assert member["Assignment"]["Topics"] == [{"Topic": "orders", "Partitions": [0, 1, 2]}]
            subscribers = self._do("DescribeTopicSubscribeGroup", TopicName="orders")
            assert [one["Group"] for one in subscribers["GroupsInfo"]] == ["readers"]
        finally:
            consumer.close()
        [listed] = self._do("DescribeConsumerGroup", GroupName="readers")["GroupList"]
        [topic] = listed["SubscribedInfo"]
        assert {"Partition": "0", "Offset": 10} in topic["PartitionOffset"]

    def _committed(self, group: str) -> dict[int, int]:
        shown = self._rest(f"/groups/{group}")["offsets"]
        [topic] = self._do("DescribeGroupOffsets", Group=group)["TopicList"]
        theirs = {one["Partition"]: (one["Offset"], one["Lag"]) for one in topic["Partitions"]}
        assert theirs == {one["partition"]: (one["committed_offset"], one["lag"]) for one in shown}
        return {one["partition"]: one["committed_offset"] for one in shown}

    def _offsets(self) -> None:
        assert self._committed("readers")[0] == 10
        self._do(
            "ModifyGroupOffsets", Group="readers", Strategy=0, Shift=-3, Topics=["orders"], Partitions=[0]
        )
        assert self._committed("readers")[0] == 7
        self._do("ModifyGroupOffsets", Group="readers", Strategy=1, ShiftTimestamp=-2, Topics=["orders"])
        assert self._committed("readers")[0] == 0
        self._do("ModifyGroupOffsets", Group="readers", Strategy=2, Offset=4, Topics=["orders"])
        assert self._committed("readers") == {0: 4, 1: 0, 2: 0}, "within each log's ends"
        moved = [{"Partition": 0, "Offset": 6}]
        self._do("BatchModifyGroupOffsets", GroupName="readers", TopicName=["orders"], Partitions=moved)
        assert self._committed("readers")[0] == 6
        self._do("CreateConsumer", GroupName="planned", TopicName="orders")
        assert self._committed("planned") == {0: 0, 1: 0, 2: 0}
        self._do("DeleteGroup", Group="planned")
        self._rest("/groups/planned", expect=404)
        self._do("DeleteGroupSubscribeTopic", Group="readers", Topic="orders")
        assert [one["group"] for one in self._rest("/groups")["items"] if one["group"] == "planned"] == []
        eventually(lambda: self._is_without_offsets("readers"))

    def _is_without_offsets(self, group: str) -> bool:
        listed = {one["group"] for one in self._rest("/groups")["items"]}
        return group not in listed or self._rest(f"/groups/{group}")["offsets"] == []

    def all(self) -> None:
        """Everything, in an order that works."""
        self.order()
        self.show()
        self.change()
        self.isolate()
        self.routes()
        self.topics()
        self.groups()
        self.delete()
