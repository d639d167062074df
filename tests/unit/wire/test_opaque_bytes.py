"""Record bytes may pass a streaming editor by: the rest of the frame comes out the same."""

from kio.schema.produce.v7.request import PartitionProduceData, ProduceRequest, TopicProduceData

from wire.codec import duration, framed_request
from wire.edits import produce_request_editor
from wire.scope import Scope

SCOPE = Scope("iaaaaaaaaaaa")


def test_what_passes_by_is_what_would_have_come_out() -> None:
    partitions = tuple(PartitionProduceData(index=i, records=bytes(5000)) for i in range(2))
    topics = (TopicProduceData(name="orders", partition_data=partitions),)
    request = ProduceRequest(transactional_id=None, acks=1, timeout=duration(0), topic_data=topics)
    frame = memoryview(framed_request(request, 1, "c"))
    whole, _ = produce_request_editor(7, SCOPE).feed(frame)
    editor = produce_request_editor(7, SCOPE)
    assert editor.opaque_bytes == 0
    pieces, at = editor.feed(frame[:100])
    passed = 0
    while not editor.done:
        if editor.opaque_bytes:
            size = min(editor.opaque_bytes, 1234)
            editor.pass_opaque(size)
            pieces.append(frame[at : at + size])
            at += size
            passed += size
        else:
            more, used = editor.feed(frame[at : at + 10])
            pieces += more
            at += used
    assert b"".join(pieces) == b"".join(whole)
    assert passed > 9000
