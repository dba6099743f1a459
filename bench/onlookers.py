"""python -m bench.onlookers ADDRESS NUMBER: so many open pages of a dashboard, without browsers.

Each fetches a page, opens its socket and takes in what comes, as a browser does. A line says that all of
them are open; when standard input ends they are closed, and a number says how many messages have come.
"""

import asyncio
import json
import re
import sys
from urllib.request import urlopen

from websockets.asyncio.client import connect

PATHS = (
    "/",
    "/entrypoints",
    "/jobs",
    "/dead",
    "/workers",
    "/",
    "/schedules",
    "/jobs",
    "/brokers",
    "/storage",
)
_CLIENT = re.compile(r"['\"]?client_id['\"]?\s*:\s*['\"]([0-9a-f-]{36})['\"]")


class Onlooker:
    """One open page."""

    def __init__(self, address: str, path: str) -> None:
        self._address = address
        self._path = path
        self.is_open = asyncio.Event()
        self.has_seen = asyncio.Event()
        self.messages = 0

    async def look(self) -> None:
        """Open the page, and take in what comes."""
        page = await asyncio.to_thread(self._fetch)
        found = _CLIENT.search(page)
        assert found is not None, f"no client in {page[:500]}"
        query = (
            f"client_id={found[1]}&tab_id={found[1]}&document_id={found[1]}"
            "&next_message_id=0&implicit_handshake=true&EIO=4&transport=websocket"
        )
        url = f"ws://{self._address}/dashboard/_nicegui_ws/socket.io/?{query}"
        async with connect(url, max_size=None) as socket:
            async for message in socket:
                text = str(message)
                if text.startswith("0"):
                    await socket.send("40")
                elif text == "2":
                    await socket.send("3")
                elif text.startswith("40"):
                    self.is_open.set()
                elif text.startswith("42"):
                    # A browser reads them too.
                    json.loads(text[2:])
                    self.messages += 1
                    self.has_seen.set()

    def _fetch(self) -> str:
        with urlopen(f"http://{self._address}/dashboard{self._path}") as answer:
            return str(answer.read().decode())


async def main(address: str, number: int) -> None:
    """Look until nobody wants it any more."""
    onlookers = [Onlooker(address, PATHS[place % len(PATHS)]) for place in range(number)]
    looking = [asyncio.create_task(one.look()) for one in onlookers]
    for one, task in zip(onlookers, looking, strict=True):
        opening = asyncio.create_task(one.is_open.wait())
        await asyncio.wait([task, opening], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    # The first of them has a chart, which grows every second.
    if onlookers:
        await onlookers[0].has_seen.wait()
    for task in looking:
        task.cancel()
    await asyncio.gather(*looking, return_exceptions=True)
    print(sum(one.messages for one in onlookers), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
