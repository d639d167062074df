"""The chart's alerts that a drill can tell from metrics: `helm/portico/mixin/alerts.yaml` for stacks without
a Prometheus. A test holds both to each other."""

from typing import Final

from ctl.drills.alerts import Rule

RULES: Final = (
    Rule("PorticoProcessDown", 'up{job=~".*portico.*"} == 0', 180),
    Rule("PorticoStoreDown", "portico_store_up == 0", 60),
    Rule("PorticoRedisDown", "portico_redis_up == 0", 300),
    Rule("PorticoClusterDown", "max by (cluster, cause) (portico_cluster_trouble) > 0", 120),
    Rule("PorticoOfflinePartitions", "sum(portico_broker_offline_partitions) > 0", 60),
    Rule("PorticoUnderMinIsr", "sum by (pod, instance) (portico_broker_under_min_isr_partitions) > 0", 120),
    Rule(
        "PorticoUnderReplicated",
        "sum by (pod, instance) (portico_broker_under_replicated_partitions) > 0",
        900,
    ),
    Rule("PorticoNoController", "sum(portico_broker_active_controller) != 1", 120),
    Rule("PorticoDamagedLogs", "sum by (pod, instance) (portico_broker_damaged_logs) > 0", 0),
    Rule(
        "PorticoStorageErrors",
        "sum by (pod, instance) (increase(portico_broker_storage_errors_total[10m])) > 0",
        0,
    ),
    Rule("PorticoQuotaReportsMissing", "max by (instance) (portico_quota_silent_brokers) > 0", 120),
    Rule("PorticoInstanceBlocked", "portico_quota_blocked == 1", 300),
    Rule("PorticoInstanceFailed", 'max(portico_instances{state="failed"}) > 0', 120),
    Rule("PorticoAbsentInstances", "max(portico_absent_instances) > 0", 300),
    Rule(
        "PorticoPipelineStale",
        'min by (job) (portico_pipeline_since_success_seconds{job="meter"}) > 3600',
        300,
    ),
    Rule(
        "PorticoBackupStale",
        'min by (job) (portico_pipeline_since_success_seconds{job="backup"}) > 93600',
        300,
    ),
)
