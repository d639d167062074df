import asyncio

from runtime.kafka_client import KafkaConnection


async def test_a_connection_that_the_broker_closed_is_closed() -> None:
    """A kept connection must not be used again after its broker was restarted."""

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connection = await KafkaConnection.open("127.0.0.1", port)
        async with asyncio.timeout(5):
            while not connection.is_closed:
                await asyncio.sleep(0.01)
        connection.close()
