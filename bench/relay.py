"""A relay to a TCP server that makes it as far away as a cloud: each way takes half of a round trip.

    python -m bench.relay 8333 60      port of the server, milliseconds of a round trip

Prints the port that it listens on.
"""

import asyncio
import sys
from contextlib import suppress


async def main(server_port: int, round_trip_s: float) -> None:
    """Relay until it is killed."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", server_port)
        ways = (
            _carry(reader, there_writer, round_trip_s / 2),
            _carry(there_reader, writer, round_trip_s / 2),
        )
        await asyncio.gather(*ways)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        with suppress(ConnectionError):
            if piece := await reader.read(1 << 16):
                loop.call_later(delay_s, writer.write, piece)
                continue
        loop.call_later(delay_s, writer.close)
        return


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]) / 1000))
