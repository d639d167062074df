"""What OpenTelemetry's variables mean here."""

import pytest

from runtime.config import ConfigFault
from runtime.trace_settings import settings_of, trace_settings

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_URL = "http://collector:4318"


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {_ENDPOINT: ""},
        {_ENDPOINT: _URL, "OTEL_SDK_DISABLED": "true"},
        {_ENDPOINT: _URL, "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_SAMPLER": "always_on", "OTEL_SERVICE_NAME": "x"},
    ],
)
def test_traces_are_off(variables: dict[str, str]) -> None:
    assert trace_settings(variables) is None


@pytest.mark.parametrize(
    ("variables", "endpoint"),
    [
        ({_ENDPOINT: _URL}, f"{_URL}/v1/traces"),
        ({_ENDPOINT: f"{_URL}/base/"}, f"{_URL}/base/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{_URL}/own", _ENDPOINT: "http://other"}, f"{_URL}/own"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "http://localhost:4318/v1/traces"),
    ],
)
def test_where_spans_are_posted(variables: dict[str, str], endpoint: str) -> None:
    settings = trace_settings(variables)
    assert settings is not None and settings.endpoint == endpoint
    assert (settings.ratio, settings.per_second, settings.messaging) == (1.0, 10, False)


def test_all_of_it() -> None:
    settings = trace_settings(
        {
            _ENDPOINT: _URL,
            "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20abc, x-tenant=7",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "2500",
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": "0.25",
            "OTEL_SEMCONV_STABILITY_OPT_IN": "http, messaging/dup",
            "PORTICO_TRACES_PER_SECOND": "50",
        }
    )
    assert settings is not None
    assert settings.headers == {"authorization": "Bearer abc", "x-tenant": "7"}
    assert (settings.timeout_s, settings.ratio, settings.per_second) == (2.5, 0.25, 50)
    assert settings.messaging and "abc" not in repr(settings)


@pytest.mark.parametrize(
    ("variables", "fault"),
    [
        ({_ENDPOINT: "collector:4318"}, "not an http:// or https:// address"),
        ({_ENDPOINT: _URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "must be http/protobuf"),
        ({_ENDPOINT: _URL, "OTEL_TRACES_EXPORTER": "zipkin"}, "must be otlp or none"),
        ({_ENDPOINT: _URL, "OTEL_TRACES_SAMPLER": "jaeger_remote"}, "must be always_on"),
        (
            {_ENDPOINT: _URL, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "nan"},
            "from 0 to 1",
        ),
        ({_ENDPOINT: _URL, "PORTICO_TRACES_PER_SECOND": "0"}, "from 1 to 1000"),
        ({_ENDPOINT: _URL, "OTEL_EXPORTER_OTLP_HEADERS": "secret"}, "NAME=VALUE"),
    ],
)
def test_what_contradicts_itself_is_said(variables: dict[str, str], fault: str) -> None:
    with pytest.raises(ConfigFault, match=fault):
        trace_settings(variables)
    with pytest.raises(SystemExit, match="traces: "):
        settings_of(variables)
