"""The topics of an instance that activity goes through."""

from typing import Final

PAGE_VIEWS: Final = "page_views"
POSTS: Final = "posts"
FOLLOWS: Final = "follows"
LOGINS: Final = "logins"
SERVICE_METRICS: Final = "service_metrics"
INPUT_TOPICS: Final = (PAGE_VIEWS, POSTS, FOLLOWS, LOGINS, SERVICE_METRICS)
ABUSE_ALERTS: Final = "abuse_alerts"
OPS_ALERTS: Final = "ops_alerts"
PARTITIONS: Final = 4
