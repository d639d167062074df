"""What both halves of a session know: who talks to whom, what is unanswered, and where the sides are."""

from gateway.session.fault_marks import FaultMarks
from gateway.session.ordering import ReplyQueue
from gateway.session.states import Sides
from gateway.session.surroundings import Host, Instance, Traces


class Conversation:
    """Shared by the halves of one session; each of them alone moves what its bytes mean."""

    __slots__ = (
        "address",
        "fault_marks",
        "fetch_sessions",
        "host",
        "instance",
        "node_id",
        "now_ns",
        "queue",
        "sent_unanswered",
        "sides",
        "takes_traces",
        "traces",
    )

    def __init__(
        self, instance: Instance, host: Host, address: str, node_id: int | None, traces: Traces | None
    ) -> None:
        self.instance = instance
        self.host = host
        self.address = address
        """The client's."""
        self.node_id = node_id
        """Which broker the requests go to; None: whichever."""
        self.traces = traces
        self.queue = ReplyQueue()
        self.sides = Sides()
        self.now_ns = 0
        """When the chunk was here that is handled now, monotonic."""
        self.fetch_sessions: set[int] | None = None
        """Fetch session ids the backend gave on this connection: no others go up."""
        self.takes_traces = False
        """Whether the broker has said that it takes `contracts.tracing`."""
        self.sent_unanswered = False
        """Whether acks=0 data went up: nothing ever says that it has arrived."""
        self.fault_marks: FaultMarks | None = None

    @property
    def now_ms(self) -> int:
        """The time in ms."""
        return self.now_ns // 1_000_000

    def marks(self) -> FaultMarks:
        """What injected faults have left behind here, from now on at least."""
        if self.fault_marks is None:
            self.fault_marks = FaultMarks()
        return self.fault_marks
