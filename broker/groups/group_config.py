"""What an operator may set about consumer groups. Kafka's names with our units last."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Settings of the group coordinator; all of them need a restart."""

    session_timeout_min_ms: int = 6_000
    """`group.min.session.timeout.ms`: shorter sessions are refused with INVALID_SESSION_TIMEOUT."""

    session_timeout_max_ms: int = 1_800_000
    """`group.max.session.timeout.ms`."""

    initial_rebalance_delay_ms: int = 500
    """`group.initial.rebalance.delay.ms`: how long an empty group waits for more members.

    Kafka's 3 s makes every first consumer of a small instance wait 3 s; 0 costs a group of n members that
    start together up to n rebalances. Half a second covers members started by one script or deployment.
    """

    new_member_join_timeout_ms: int = 300_000
    """How long the parked JoinGroup of a member without a member id counts: its client cannot heartbeat."""

    consumer_session_timeout_ms: int = 45_000
    """`group.consumer.session.timeout.ms`: members of consumer groups do not choose one of their own."""

    consumer_heartbeat_interval_ms: int = 3_000
    """`group.consumer.heartbeat.interval.ms`, told to members of a group that has settled. Kafka's 5 s is how
    long a member may not know of a new one; 3 s is what classic members send by default."""

    mover_heartbeat_interval_ms: int = 500
    """The same for those that would have to give a partition to one more member, which waits for them, and
    for those that would be given what one that leaves had, which nobody reads until then."""

    mover_interval_ms: int = 10
    """Times such members of all groups of the instance on a broker, where that is more: an instance's settled
    groups cost 100 heartbeats a second more at most than they would without."""

    unsettled_heartbeat_interval_ms: int = 200
    """The same while members are on their way to a new assignment, which takes a few heartbeats of each."""

    unsettled_member_interval_ms: int = 2
    """Times the members, where that is more: a large group costs 500 heartbeats a second at most."""

    gather_ms_min: int = 50
    """How long a member that comes, goes or subscribes to something else waits for others, so that all cost
    one assignment; each that does so meanwhile is waited for anew. So those that start together need not wait
    for the first of them to let go of all that it was given."""

    gathered_per_ms: int = 10
    """So many members and partitions of the group let it wait 1 ms longer, for they make the assignment that
    much more work. An instance's groups wait for each other so: its assignments take a fourth of a core at
    most, in how many groups whoever comes and goes how often."""

    gather_ms_max: int = 1_000
    """At most; 0: nobody waits. Kafka's `group.consumer.assignment.interval.ms`."""

    group_size_max: int = 1_000
    """`group.max.size`: Kafka has no bound; ours keeps one tenant's group record below the batch limit."""

    groups_per_instance_max: int = 5_000
    """Groups of one instance, so that committing under random names cannot fill the memory all share.
    This and `instance_bytes_max` do not bind groups without an instance: a standalone Kafka's."""

    instance_bytes_max: int = 64 * 1024 * 1024
    """Member metadata, assignments and committed offsets of one instance, for the same reason. The usual
    instance has some kilobytes; a member with Kafka Streams' largest subscriptions has some hundred."""

    offset_metadata_bytes_max: int = 4_096
    """`offset.metadata.max.bytes`: longer metadata is refused with OFFSET_METADATA_TOO_LARGE."""

    member_metadata_bytes_max: int = 1_048_576
    """All protocols of one member together: what a Kafka with default settings could store at most."""

    group_metadata_bytes_max: int = 8 * 1024 * 1024
    """Metadata of all members of one group, each one's largest: its leader is told of all at once."""

    group_names_max: int = 100_000
    """Topic names in it, subscribed and owned: for the leader a gateway maps all of them in one step, of some
    50 ms. 33 members that have subscribed to 3,000 topics."""

    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """`offsets.retention.minutes`: counted from when the group became empty, not while subscribed."""

    offsets_partitions: int = 12
    """`offsets.topic.num.partitions`, fixed when the topic is created.

    A partition is the unit in which groups spread over brokers. Clusters here are small and many, and 12
    divides evenly by 1, 2, 3, 4 and 6 brokers, where Kafka's 50 would cost 200 files on each.
    """

    def faults(self) -> list[str]:
        """Every cross-field rule that does not hold, one sentence each."""
        found = []
        if not 0 < self.session_timeout_min_ms <= self.session_timeout_max_ms:
            found.append("the least session timeout must be above 0 and at most the greatest")
        if self.initial_rebalance_delay_ms < 0:
            found.append("the initial rebalance delay must not be negative")
        if self.offsets_partitions < 1:
            found.append("the offsets topic needs at least one partition")
        if self.group_size_max < 1:
            found.append("a group must be allowed at least one member")
        return found
