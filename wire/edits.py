"""Frame edits: names are changed inside the received bytes, records are never touched (design: Frame edits).

A *whole-frame* editor takes one complete frame, length prefix included, and answers with the buffers to
send in order: short `bytes` for what changed and slices of the given memoryview for the rest. The slices
are only valid until the receive buffer is reused. A *streaming* editor does the same for a frame that
arrives in pieces, in constant memory (`produce_request_editor`, `fetch_response_editor`). Fetch requests
and Produce responses are small, and what they grow by is not known from their first bytes, so they are
edited whole.

    Produce request   0-13   edit_produce_request    produce_request_editor
    Produce response  0-13   edit_produce_response
    Fetch request     0-18   edit_fetch_request
    Fetch response    0-18   edit_fetch_response     fetch_response_editor

Raises everywhere: MalformedFrame (ForeignName included) for bytes that no right peer sends, NameFault for
names that cannot be mapped. Both mean that nothing of the frame may be sent any more.
"""

from typing import Final

from wire.api_table import ApiKey
from wire.edit_compile import client_id_field
from wire.edit_fetch import (
    FetchRequestEdit,
    FetchResponseEdit,
    edit_fetch_request,
    edit_fetch_response,
    fetch_session,
)
from wire.edit_produce import (
    ProduceRequestEdit,
    ProduceResponseEdit,
    edit_produce_request,
    edit_produce_response,
    only_topic_id,
)
from wire.edit_stream import AddedTopics, FrameEditor, fetch_response_editor, produce_request_editor
from wire.framing import Buffer, frame_size
from wire.hot.fetch import BY_ID_FROM as FETCH_BY_ID_FROM
from wire.hot.produce import BY_ID_FROM as PRODUCE_BY_ID_FROM

EDITED: Final = {ApiKey.PRODUCE: range(14), ApiKey.FETCH: range(19)}
"""The versions of the hot APIs that are edited instead of decoded."""

__all__ = (
    "EDITED",
    "FETCH_BY_ID_FROM",
    "PRODUCE_BY_ID_FROM",
    "AddedTopics",
    "Buffer",
    "FetchRequestEdit",
    "FetchResponseEdit",
    "FrameEditor",
    "ProduceRequestEdit",
    "ProduceResponseEdit",
    "client_id_field",
    "edit_fetch_request",
    "edit_fetch_response",
    "edit_produce_request",
    "edit_produce_response",
    "fetch_response_editor",
    "fetch_session",
    "frame_size",
    "only_topic_id",
    "produce_request_editor",
)
