import asyncio

import uvloop
from kio.schema.api_versions.v0 import ApiVersionsRequest

from runtime.kafka_client import KafkaConnection, KafkaUnavailable


async def test_a_connection_that_the_broker_closed_is_closed() -> None:
    """A kept connection must not be used again after its broker was restarted."""

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connection = await KafkaConnection.open("127.0.0.1", port)
        async with asyncio.timeout(30):
            while not connection.is_closed:
                await asyncio.sleep(0.01)
        connection.close()


def test_calls_that_wait_behind_one_that_fails_fail_alike() -> None:
    """On the loop of the processes: uvloop has an exception of its own for writing to what is closed."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.close()

    async def main() -> list[object]:
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        async with server:
            connection = await KafkaConnection.open("127.0.0.1", server.sockets[0].getsockname()[1])
            calls = [connection.call(ApiVersionsRequest()) for _ in range(3)]
            return await asyncio.gather(*calls, return_exceptions=True)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        failures = runner.run(main())
    assert [type(failure) for failure in failures] == [KafkaUnavailable] * 3
