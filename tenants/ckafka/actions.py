"""The one table of CKafka's actions: those that are served, and those that are known and are not."""

from typing import Final

from tenants.ckafka import access, groups, listings, orders, topics
from tenants.ckafka.action import Action

VERSION: Final = "2019-08-19"
"""The version of CKafka's API."""

_FAMILIES: Final = (listings, orders, topics, access, groups)
ACTIONS: Final[dict[str, Action]] = {one.name: one for family in _FAMILIES for one in family.ACTIONS}

_WHY_NOT: Final[dict[str, tuple[str, ...]]] = {
    "users and ACLs have routes of their own: /v1/instances/ID/users and /acls": (
        "BatchCreateAcl",
        "CreateAcl",
        "CreateAclRule",
        "CreateUser",
        "DeleteAcl",
        "DeleteAclRule",
        "DeleteUser",
        "DescribeACL",
        "DescribeAclRule",
        "DescribeUser",
        "ModifyAclRule",
        "ModifyPassword",
    ),
    "an instance has the one route it was made with": (
        "CreateRoute",
        "DeleteRoute",
        "DeleteRouteTriggerTime",
    ),
    "there are no security groups: use whitelists": (
        "AssociateRoutesSecurityGroup",
        "DescribeSecurityGroupRoutes",
        "DisassociateRoutesSecurityGroup",
        "ModifyRouteSecurityGroups",
    ),
    "limits are set for instances, not below": (
        "CreateThrottleRule",
        "DeleteThrottleRule",
        "DescribeThrottleRules",
        "ModifyThrottleRule",
    ),
    "there are no tokens: use access keys": (
        "AuthorizeToken",
        "CancelAuthorizationToken",
        "CreateToken",
    ),
    "there is no DataHub: use Kafka's clients": (
        "CreateConnectResource",
        "CreateDatahubTask",
        "CreateDatahubTopic",
        "CreateMetaAndDataSyncDatahubTask",
        "CreateMetaDataAndOffsetSyncDatahubTask",
        "CreateMetaSyncDatahubTask",
        "DeleteConnectResource",
        "DeleteDatahubTask",
        "DeleteDatahubTopic",
        "DescribeConnectResource",
        "DescribeConnectResources",
        "DescribeDatahubGroupOffsets",
        "DescribeDatahubTask",
        "DescribeDatahubTasks",
        "DescribeDatahubTopic",
        "DescribeDatahubTopics",
        "FetchDatahubMessageByOffset",
        "FetchLatestDatahubMessageList",
        "ModifyConnectResource",
        "ModifyDatahubTask",
        "ModifyDatahubTopic",
        "PauseDatahubTask",
        "RestartDatahubTask",
        "ResumeDatahubTask",
        "SendMessage",
    ),
    "machines and their versions are the operator's business": (
        "CheckCdcCluster",
        "CreateCdcCluster",
        "CreatePrometheus",
        "DescribeCvmInfo",
        "DescribePrometheus",
        "ModifyRoutineMaintenanceTask",
        "UpgradeBrokerVersion",
    ),
    "prices are in the bills": ("InquireCkafkaPrice",),
    "a change of size is applied at once, nothing migrates": ("DescribeModifyType",),
    "connections and traffic are not counted by topic": (
        "DescribeTopicFlowRanking",
        "DescribeTopicProduceConnection",
    ),
    "records are read by Kafka's clients": (
        "FetchMessageByOffset",
        "FetchMessageListByOffset",
        "FetchMessageListByTimestamp",
    ),
}
UNSUPPORTED: Final[dict[str, str]] = {name: why for why, names in _WHY_NOT.items() for name in names}
"""Actions that CKafka's SDK has and this service does not, with the reason."""
