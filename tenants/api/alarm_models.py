"""What the API takes and tells of alarms."""

from datetime import datetime

from pydantic import Field

from tenants.api.models import RequestModel, ViewModel
from tenants.api.times import Time
from tenants.rules.alarms import AlarmEvent, AlarmKind, AlarmState, Severity

_WINDOW = "over so many minutes; 0 where the figure is one of now"
_RAISE = "looks in a row, one each 10 s, that must find it alarming"
_CLEAR = "looks in a row that must find it well"
_THRESHOLD = "alarming from here on; what it counts is the rule's `unit`"


class AlarmRuleOrder(RequestModel):
    """PUT .../alarms/{kind}/rule."""

    enabled: bool = Field(default=True, description="whether it is looked at", examples=[True])
    threshold: int = Field(ge=0, le=2**63 - 1, description=_THRESHOLD, examples=[50])
    window_minutes: int = Field(ge=0, le=60, description=_WINDOW, examples=[5])
    raise_after: int = Field(ge=1, le=360, description=_RAISE, examples=[2])
    clear_after: int = Field(ge=1, le=360, description=_CLEAR, examples=[6])


class AlarmRuleView(ViewModel):
    """When an alarm is raised and cleared."""

    kind: AlarmKind = Field(description="what it is about", examples=["throttled_produce"])
    title: str = Field(description="what it is about, in words", examples=["producers are throttled"])
    unit: str = Field(description="what the threshold counts", examples=["% of the time"])
    enabled: bool = Field(description="whether it is looked at", examples=[True])
    threshold: int = Field(description=_THRESHOLD, examples=[50])
    window_minutes: int = Field(description=_WINDOW, examples=[5])
    raise_after: int = Field(description=_RAISE, examples=[2])
    clear_after: int = Field(description=_CLEAR, examples=[6])


class OperatorRule(ViewModel):
    """The rule that holds for every instance that has none of its own."""

    rule: AlarmRuleView = Field(description="as it holds")
    changed: bool = Field(description="whether operators have set it; else it is built in", examples=[False])


class AlarmRuleList(ViewModel):
    """GET /v1/alarms/rules."""

    items: list[OperatorRule]


class AlarmView(ViewModel):
    """One thing that may be alarming."""

    kind: AlarmKind = Field(description="what it is about", examples=["throttled_produce"])
    subject: str = Field(description="which of several, such as a broker; else empty", examples=[""])
    instance_id: str | None = Field(description="null: it concerns the deployment, and operators alone")
    tenant: str | None = Field(description="of the instance; null: it is of none", examples=["acme"])
    instance_name: str | None = Field(description="of the instance; null: it is of none", examples=["shop"])
    severity: Severity = Field(
        description="`critical`: clients cannot be served, or will not be unless somebody acts",
        examples=["warning"],
    )
    title: str = Field(description="what it is about, in words", examples=["producers are throttled"])
    state: AlarmState = Field(
        description="`unknown`: nobody tells the figure; whether it is raised is as it was when somebody did",
        examples=["raised"],
    )
    since: datetime | None = Field(description="since when it is in this state; null: nobody looked yet")
    raised_at: datetime | None = Field(description="since when it is raised; null: it is not")
    known_at: datetime | None = Field(description="when the figure and its words were told; null: never")
    value: float | None = Field(
        description="in the rule's unit; null: not known, or never reached", examples=[97.0]
    )
    says: str = Field(
        description="the explanation", examples=["throttled 97 % of the last 5 min; 20.0 MB/s now, ..."]
    )
    remedy: str = Field(description="what helps", examples=["Produce less, or resize the produce rate."])
    acknowledged_at: datetime | None = Field(description="when somebody had seen it; null: nobody has")
    acknowledged_by: str | None = Field(
        description="who had seen it; null: nobody has", examples=["session:ann"]
    )
    silenced_until: datetime | None = Field(description="nobody is told of it until then; null: they are")
    silenced_by: str | None = Field(description="who silenced it; null: it is not", examples=[None])
    rule: AlarmRuleView = Field(description="when it is raised and cleared")


class AlarmList(ViewModel):
    """Alarms of one instance, or the operators' own."""

    items: list[AlarmView]
    looked_at: datetime | None = Field(description="when the figures were looked at last; null: never")


class RaisedAlarms(AlarmList):
    """GET /v1/alarms, one page."""

    next_cursor: str | None


class AlarmEntry(ViewModel):
    """One line of the history."""

    at: datetime
    instance_id: str | None = Field(description="null: it concerned the deployment, and operators alone")
    instance_name: str | None = Field(description="of the instance; null: it is of none", examples=["shop"])
    kind: AlarmKind = Field(description="what it was about", examples=["throttled_produce"])
    subject: str = Field(description="which of several, such as a broker; else empty", examples=[""])
    event: AlarmEvent = Field(description="what happened", examples=["raised"])
    says: str = Field(
        description="the explanation at that time", examples=["throttled 97 % of the last 5 min"]
    )
    by: str | None = Field(description="who did it; null: the figures", examples=[None])


class AlarmHistory(ViewModel):
    """The last 200, newest first."""

    items: list[AlarmEntry]


class SilenceOrder(RequestModel):
    """PUT .../alarms/{kind}/silence."""

    until: Time = Field(strict=False, description="within 30 days", examples=["2026-11-24T08:00:00Z"])
