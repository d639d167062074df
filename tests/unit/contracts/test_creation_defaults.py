from contracts.topic_policy import creation_defaults


def test_only_what_no_broker_could_apply_is_written_into_a_topic() -> None:
    assert creation_defaults(10**9) == {"segment.bytes": "16777216"}
    assert creation_defaults(10**10) == {"segment.bytes": "100000000"}
