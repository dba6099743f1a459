"""make screenshots: the pictures of the dashboard in docs/pictures, of a queue at work.

A shop is busy for half a minute, so that the charts have something to show; then each page is drawn in a
real browser, and its picture made small.
"""

import asyncio
import random
from contextlib import suppress
from io import BytesIO
from pathlib import Path

from PIL import Image

import bucketq
from bucketq.retry import GiveUp
from tests.acceptance.served import served
from tests.dashboard.browser import browser, opened
from tests.dashboard.scene import fill

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 780}
BUSY_S = 35.0
COLOURS = 128


async def main():
    """Let a shop be busy, and take the pictures."""
    with served("memory://", "--dashboard", "--grpc-port", "0", "--http-port", "0") as broker:
        broker.wait_for("leading")
        at = f"http://{broker.http}/dashboard"
        async with bucketq.connect(f"grpc://{broker.address}") as queue, browser() as chromium:
            ids = await fill(queue)
            work = asyncio.create_task(_be_busy(queue))
            async with opened(chromium, size=DESKTOP, theme="dark") as page:
                # The charts grow only while somebody looks.
                await page.goto(at)
                await asyncio.sleep(BUSY_S)
                await _take(page, "overview")
            async with opened(chromium, size=DESKTOP, theme="light") as page:
                for name, path in (("jobs", "/jobs"), ("job", f"/jobs/{ids['dead']}")):
                    await page.goto(at + path)
                    await page.wait_for_selector(".bq-table tbody tr, .bq-job-head")
                    await _take(page, name)
            async with opened(chromium, size=PHONE, theme="dark") as page:
                await page.goto(f"{at}/dead")
                await page.wait_for_selector(".bq-table tbody tr")
                await _take(page, "phone")
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work


async def _be_busy(queue):
    """Jobs come in waves, and a few workers do them; now and then one fails."""
    chance = random.Random(7)
    await asyncio.gather(
        _produce(queue, chance), *(_work(queue, chance, f"web-{n}:4711") for n in range(1, 7))
    )


async def _produce(queue, chance):
    while True:
        for _ in range(chance.choice((4, 10, 30))):
            name = chance.choice(("send_email", "resize_image", "send_receipt"))
            await queue.enqueue(name, {"order": chance.randrange(10_000)}, priority=-1)
        await asyncio.sleep(0.7)


async def _work(queue, chance, worker):
    while True:
        for job in await queue.dequeue(("send_email", "resize_image", "send_receipt"), wait=5, worker=worker):
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            if chance.random() < 0.02:
                await queue.nack(job, "TimeoutError: no answer for 30 s", retry=lambda failure: GiveUp())
            else:
                await queue.ack(job, {"ok": True})


async def _take(page, name):
    """A picture of what is seen, with as few colours as do."""
    await page.wait_for_timeout(700)
    picture = Image.open(BytesIO(await page.screenshot())).convert("RGB")
    path = PICTURES / f"dashboard-{name}.png"
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    asyncio.run(main())
