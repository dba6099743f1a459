"""A scraper that is polite: one request at a time to each host, however many workers there are.

    cd examples
    python scraper.py https://example.com/
    bucketq work scraper:app --concurrency 50

All claims pass one commit, so the limit holds for all workers together. It needs httpx.
"""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx

from bucketq import App, KeyTakenError, provided

app = App((Path.cwd() / "queue.json").as_uri())


@app.resource
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=20, follow_redirects=True) as client:
        yield client


@app.job(timeout=60)
async def fetch(url: str, depth: int, client: httpx.AsyncClient = provided()) -> int:
    """Fetch a page, and enqueue those of the same host that it links to."""
    answer = (await client.get(url)).raise_for_status()
    if depth > 0:
        links = {urljoin(url, link).partition("#")[0] for link in re.findall(r'href="([^"]+)"', answer.text)}
        for link in sorted(links):
            if urlsplit(link).netloc == urlsplit(url).netloc:
                await visit(link, depth - 1)
    return len(answer.content)


async def visit(url: str, depth: int) -> None:
    """Enqueue a page, unless it waits already or was fetched within the hour."""
    host = urlsplit(url).netloc
    polite = fetch.using(limit_key=f"host-{host}", key=url, key_for=timedelta(hours=1))
    with suppress(KeyTakenError):
        await polite.enqueue(url, depth)


async def main(urls: list[str], depth: int = 3) -> None:
    async with app:
        queue = await app.opened()
        await queue.limit(limit_key="host-*", max_running=1, rate=5)
        for url in urls:
            await visit(url, depth)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
