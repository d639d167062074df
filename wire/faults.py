"""What can be wrong with bytes or names a peer sent. Every fault names its cause for metrics and logs."""

from typing import ClassVar


class MalformedFrame(Exception):  # noqa: N818 - a fact about the peer, named as one
    """The peer sent bytes that are not a message of the API and version they claim."""

    cause: ClassVar[str] = "malformed_frame"


class NegativeFrameSize(MalformedFrame):
    """The length prefix is negative."""

    cause = "negative_frame_size"


class FrameTooLarge(MalformedFrame):
    """The length prefix is above the limit."""

    cause = "frame_too_large"


class TooManyEntries(MalformedFrame):
    """A request with more list entries than one turn of a loop has time for (`wire.request_bounds`)."""

    cause = "too_many_entries"


class ForeignName(MalformedFrame):
    """A response names something of another instance where only our own can stand."""

    cause = "foreign_name"


class NameFault(Exception):  # noqa: N818 - a fact about the request, named as one
    """A well-formed request with a name that cannot be mapped; the gateway answers it locally."""

    cause: ClassVar[str] = "unmappable_name"


class NameTooLong(NameFault):
    """The physical name would not fit Kafka's strings (32,767 bytes)."""

    cause = "name_too_long"


class EmptyName(NameFault):
    """An empty group or transactional id. `kind` is `group_id` or `transactional_id`."""

    cause = "empty_name"

    def __init__(self, kind: str) -> None:
        super().__init__(f"the {kind.replace('_', ' ')} is empty")
        self.kind = kind


class NotMappable(NameFault):
    """The request reaches outside the instance and has no form inside it."""

    cause = "not_mappable"
