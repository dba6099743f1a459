"""Outflow: what a connection has written and not sent yet, by a real socket."""

import asyncio
from contextlib import asynccontextmanager

from bucketq.broker.allowance import Allowance
from bucketq.broker.holdings import Holdings
from bucketq.broker.outflow import Outflow

MB = 1024 * 1024


class Writer(asyncio.Protocol):
    """A protocol that passes on what its transport tells it, as those of the broker do."""

    def __init__(self, holdings):
        self.holdings = holdings
        self.made = asyncio.Event()
        self.gone = asyncio.Event()
        self.resumed = 0

    def connection_made(self, transport):
        self.outflow = Outflow(transport, self.holdings)
        self.made.set()

    def connection_lost(self, exc):
        self.outflow.lost()
        self.gone.set()

    def pause_writing(self):
        self.outflow.pause()

    def resume_writing(self):
        self.resumed += 1
        self.outflow.resume()


@asynccontextmanager
async def connected():
    """What a server has for a connection, and the client's end of it."""
    writer = Writer(Holdings(Allowance()))
    server = await asyncio.get_running_loop().create_server(lambda: writer, "127.0.0.1", 0)
    async with server, asyncio.timeout(20):
        reader, end = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=1024)
        await writer.made.wait()
        try:
            yield writer, reader
        finally:
            end.close()
            await writer.gone.wait()


async def test_everything_arrives_in_order_piece_by_piece_and_counts_until_it_is_sent():
    content = bytes(range(256)) * 64 * 1024
    async with connected() as (writer, reader):
        writer.outflow.write(content)
        writer.outflow.write(b"last")
        # The system takes some of it.
        assert 8 * MB < writer.holdings.bytes_held <= len(content) + 4
        assert not writer.outflow.drained.is_set()
        assert await reader.readexactly(len(content)) == content
        assert await reader.readexactly(4) == b"last"
        await writer.outflow.drained.wait()
        assert writer.holdings.bytes_held == 0
        assert writer.resumed > 16, "each piece that is read shows that the client reads"


async def test_a_connection_that_is_closed_sends_the_rest_first():
    async with connected() as (writer, reader):
        writer.outflow.write(b"x" * 16 * MB)
        writer.outflow.close()
        writer.outflow.write(b"too late")
        assert writer.outflow.is_closing()
        assert len(await reader.read()) == 16 * MB
        await writer.gone.wait()


async def test_a_connection_that_is_lost_holds_nothing():
    async with connected() as (writer, _):
        writer.outflow.write(b"x" * 16 * MB)
        writer.outflow.abort()
        await writer.gone.wait()
        assert writer.outflow.drained.is_set()
        assert writer.holdings.bytes_held == 0
