"""How often a tenant may call each action: Tencent's own limits, beside the rates of the console's API. Pure.

Source: CKafka's API documentation: 20 requests per second and action of an account, 100 of
CreateTopicIpWhiteList, 10 of CreateInstancePre.
"""

from typing import Final

from tenants.rules.rate_limit import Bucket, Quota

CALLS_PER_S: Final = 20
"""Calls of one action of CKafka by one tenant; beyond: `RequestLimitExceeded`."""
_OTHERS: Final = {"CreateTopicIpWhiteList": 100, "CreateInstancePre": 10}


def bucket_of(tenant: str, action: str) -> Bucket:
    """What a call is charged to."""
    calls_max = _OTHERS.get(action, CALLS_PER_S)
    return Bucket(f"portico:rate:action:{tenant}:{action}", Quota("action", calls_max, 1))
