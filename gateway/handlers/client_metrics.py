"""GetTelemetrySubscriptions 0, PushTelemetry 0: clients tell of themselves (KIP-714), to us and never to the
cluster behind. What is asked and when is decided in `gateway/rules/client_metrics.py`.

In an instance that takes no metrics both are not offered; a client that was told of them before is asked for
nothing.
"""

from typing import cast

from kio.schema.errors import ErrorCode

from gateway.rules.client_metrics import CODECS, PUSHED_BYTES_MAX, Push, Who, cut
from gateway.session.call import Answer, Call
from wire.api_table import ApiKey
from wire.codec import duration
from wire.messages import GetTelemetrySubscriptionsRequest, PushTelemetryRequest


def on_request(call: Call, request: GetTelemetrySubscriptionsRequest | PushTelemetryRequest) -> Answer:
    """Always answered at once."""
    if call.api_key == ApiKey.PUSH_TELEMETRY:
        return _pushed(call, cast(PushTelemetryRequest, request))
    return _subscribed(call, cast(GetTelemetrySubscriptionsRequest, request))


def _who(call: Call) -> Who:
    name, version = call.conversation.software
    return Who(cut(call.exchange.client_id), name, version, call.conversation.address)


def _subscribed(call: Call, request: GetTelemetrySubscriptionsRequest) -> Answer:
    now_ms = call.conversation.host.now_ms()
    found = call.instance.client_metrics.subscribe(
        request.client_instance_id, _who(call), call.conversation, now_ms
    )
    if found is None:
        return call.answer(error_code=ErrorCode.throttling_quota_exceeded)
    call.conversation.client_instance_id = found.client_instance_id
    return call.answer(
        client_instance_id=found.client_instance_id,
        subscription_id=found.subscription_id,
        accepted_compression_types=CODECS,
        push_interval=duration(found.interval_ms),
        telemetry_max_bytes=PUSHED_BYTES_MAX,
        delta_temporality=True,
        requested_metrics=found.metrics,
    )


def _pushed(call: Call, request: PushTelemetryRequest) -> Answer:
    push = Push(
        request.client_instance_id,
        request.subscription_id,
        request.terminating,
        request.compression_type,
        request.metrics,
    )
    now_ms = call.conversation.host.now_ms()
    error_code = call.instance.client_metrics.push(push, _who(call), call.conversation, now_ms)
    call.conversation.client_instance_id = push.client_instance_id
    return call.answer(error_code=error_code)
