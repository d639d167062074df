"""Takes tagged fields that the schema does not know out of whole frames, so that none is ever forwarded."""

from wire.codec import (
    is_flexible,
    parse_request_header,
    request_class,
    response_class,
    response_header_size,
    skip_tagged_fields,
)
from wire.faults import MalformedFrame
from wire.walk import clean_message


def strip_unknown_tags(frame: bytes, api_key: int, version: int, response: bool) -> bytes:
    """The frame (header and body, no length prefix) without unknown tagged fields, nested ones included.

    The headers' own tagged fields are all unknown: neither header version defines any.
    Raises: MalformedFrame.
    """
    if response:
        head = 4
        tagged = response_header_size(api_key, version) == 5
        message_class = response_class(api_key, version)
    else:
        tagged = is_flexible(api_key, version)
        head = parse_request_header(frame, False).body_at
        message_class = request_class(api_key, version)
    if len(frame) < head:
        raise MalformedFrame("the frame ends within its header")
    body_at = skip_tagged_fields(frame, head) if tagged else head
    body, at = clean_message(message_class, frame, body_at)
    nothing_unknown = body is frame and body_at == head + tagged
    return frame if nothing_unknown else frame[:head] + (b"\0" if tagged else b"") + bytes(body[at:])
