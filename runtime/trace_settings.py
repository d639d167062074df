"""Whether and where to this process tells traces: OpenTelemetry's own environment variables. Pure.

Off unless an endpoint (or `OTEL_TRACES_EXPORTER=otlp`) is given. What the SDK reads by itself (`OTEL_BSP_*`,
`OTEL_SPAN_*`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`) is the SDK's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from runtime.config import ENVIRONMENT_PREFIX, ConfigFault

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
RATIO: Final = "OTEL_TRACES_SAMPLER_ARG"
SAMPLER: Final = "OTEL_TRACES_SAMPLER"
PER_SECOND: Final = ENVIRONMENT_PREFIX + "TRACES_PER_SECOND"
PER_SECOND_DEFAULT: Final = 10
PER_SECOND_MAX: Final = 1_000
_LOCAL: Final = "http://localhost:4318"
_PATH: Final = "/v1/traces"
_PROTOCOL: Final = "http/protobuf"
_TIMEOUT_MS: Final = 10_000
_QUEUE_SPANS: Final = 2_048
_RATIOS: Final = {"always_on": 1.0, "always_off": 0.0}


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """What the environment says."""

    endpoint: str
    """Spans are posted there: OTLP over HTTP, protobuf."""
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    """Headers of each post, keys of collectors among them."""
    certificate: str | None = None
    """A file with who may sign the collector's certificate; None: the system's."""
    timeout_s: float = _TIMEOUT_MS / 1000
    """For each step of a post: connecting, sending, each read."""
    ratio: float = 1.0
    """The share of what begins here that is traced, 0 to 1."""
    per_second: int = PER_SECOND_DEFAULT
    """Beyond it requests of one instance (at gateways), or of all callers (HTTP), are not traced."""
    queue_spans: int = _QUEUE_SPANS
    """Spans that may wait for the collector; beyond it they are dropped."""
    messaging: bool = False
    """Whether attributes of OpenTelemetry's messaging conventions are told, which are not stable."""


def trace_settings(variables: Mapping[str, str]) -> TraceSettings | None:
    """None: off. Raises: ConfigFault with all faults at once."""
    reader = _Reader(variables)
    endpoint = reader.endpoint()
    if endpoint is None:
        return None
    settings = TraceSettings(
        endpoint=endpoint,
        headers=reader.headers(),
        certificate=reader.of_traces("CERTIFICATE"),
        timeout_s=reader.number("OTEL_EXPORTER_OTLP_TIMEOUT", _TIMEOUT_MS, 1, 600_000) / 1000,
        ratio=reader.ratio(),
        per_second=reader.number(PER_SECOND, PER_SECOND_DEFAULT, 1, PER_SECOND_MAX),
        queue_spans=reader.number("OTEL_BSP_MAX_QUEUE_SIZE", _QUEUE_SPANS, 512, 65_536),
        messaging=not {"messaging", "messaging/dup"}.isdisjoint(
            variables.get("OTEL_SEMCONV_STABILITY_OPT_IN", "").replace(" ", "").split(",")
        ),
    )
    if reader.faults:
        raise ConfigFault(reader.faults)
    return settings


def settings_of(variables: Mapping[str, str]) -> TraceSettings | None:
    """The settings of a process that starts. Raises: SystemExit with a sentence."""
    try:
        return trace_settings(variables)
    except ConfigFault as fault:
        raise SystemExit(f"traces: {fault}") from fault


class _Reader:
    """Reads variables, collecting what is wrong with them."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self.faults: list[str] = []

    def of_traces(self, name: str) -> str | None:
        """A variable of the exporter: that for traces goes before that for all signals."""
        for variable in (f"OTEL_EXPORTER_OTLP_TRACES_{name}", f"OTEL_EXPORTER_OTLP_{name}"):
            if text := self._variables.get(variable, "").strip():
                return text
        return None

    def endpoint(self) -> str | None:
        """The address of the collector; None: traces are off."""
        exporter = self._variables.get("OTEL_TRACES_EXPORTER", "").strip()
        if self._variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or exporter == "none":
            return None
        if exporter not in ("", "otlp"):
            self.faults.append(f"OTEL_TRACES_EXPORTER is '{exporter}', must be otlp or none")
        given = self._variables.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
        base = self._variables.get(ENDPOINT, "").strip() or (_LOCAL if exporter else "")
        if not given and not base:
            return None
        found = given or base.rstrip("/") + _PATH
        if urlsplit(found).scheme not in ("http", "https") or not urlsplit(found).hostname:
            self.faults.append(f"'{found}' is not an http:// or https:// address of a collector")
        if (protocol := self.of_traces("PROTOCOL") or _PROTOCOL) != _PROTOCOL:
            self.faults.append(f"the exporter's protocol is '{protocol}', must be {_PROTOCOL}")
        return found

    def headers(self) -> dict[str, str]:
        """`key=value,...`, percent-encoded as in W3C Baggage."""
        found = {}
        for each in (self.of_traces("HEADERS") or "").split(","):
            name, equals, value = each.partition("=")
            if not each.strip():
                continue
            if not equals or not name.strip():
                self.faults.append("OTEL_EXPORTER_OTLP_HEADERS is not NAME=VALUE,...")
            found[unquote(name.strip()).lower()] = unquote(value.strip())
        return found

    def ratio(self) -> float:
        """What the sampler lets through of what begins here."""
        sampler = self._variables.get(SAMPLER, "").strip().removeprefix("parentbased_") or "always_on"
        if sampler in _RATIOS:
            return _RATIOS[sampler]
        if sampler != "traceidratio":
            self.faults.append(f"{SAMPLER} is '{sampler}', must be always_on, always_off or traceidratio")
            return 0.0
        text = self._variables.get(RATIO, "").strip() or "1"
        try:
            ratio = float(text)
        except ValueError:
            ratio = -1.0
        if not 0 <= ratio <= 1:
            self.faults.append(f"{RATIO} is '{text}', must be a number from 0 to 1")
        return ratio

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number."""
        text = self._variables.get(name, "").strip() or str(default)
        if text.isascii() and text.isdigit() and low <= int(text) <= high:
            return int(text)
        self.faults.append(f"{name} is '{text}', must be a number from {low} to {high}")
        return default
