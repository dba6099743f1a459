"""A queue as a small shop has it on a busy day: something of everything that a page can show."""

import asyncio

import bucketq
from bucketq.retry import GiveUp

REPORT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5"></head>
<body><h1>What the queue did</h1><script>parent.document.title = "taken over"</script></body></html>
"""
TRACE = """Traceback (most recent call last):
  File "shop/mail.py", line 41, in send_email
    await smtp.send(message)
  File "shop/smtp.py", line 88, in send
    raise ConnectionError("mail.example.com:25 refused the connection")
ConnectionError: mail.example.com:25 refused the connection
"""


async def fill(queue, waiting=1200):
    """Enqueue, run, fail, finish, schedule and limit jobs; return the ids of some, by what they are."""
    ids = {}
    done = await queue.enqueue_many(
        "resize_image", [{"image": f"cat-{n}.png", "width": 640} for n in range(40)]
    )
    for _ in range(4):
        for job in await queue.dequeue("resize_image", batch_size=10, worker="web-1:4711"):
            await queue.ack(job, {"bytes": 48_213, "url": f"/images/{job.json()['image']}"})
    ids["completed"] = done[3]
    await _die(queue, "send_email", 9, "ConnectionError: mail.example.com:25 refused the connection", TRACE)
    await _die(queue, "send_email", 3, "ValueError: 'bob at example.com' is no address")
    await _die(queue, "charge_card", 2, "TimeoutError: the bank has not answered for 30 s")
    ids["dead"] = (await anext(queue.dead("send_email"))).id
    await queue.schedule(
        "nightly report", "send_report", {"kind": "daily"}, cron="30 2 * * *", tz="Europe/Vienna"
    )
    await queue.schedule("poll feed", "fetch_feed", {"feed": 7}, every=60, key="poll")
    await queue.limit("charge_card", max_running=4, rate=10)
    await queue.limit(limit_key="customer-*", max_running=1)
    await queue.enqueue_many(
        "send_email", [{"to": f"user-{n}@example.com", "template": "welcome"} for n in range(waiting)]
    )
    first = await queue.enqueue("charge_card", {"order": 77, "cents": 4990}, priority=-1)
    await queue.enqueue("send_receipt", {"order": 77}, after=[first])
    await queue.enqueue("send_reminder", {"order": 12}, delay=3600)
    await queue.enqueue_many("resize_image", [{"image": f"dog-{n}.png", "width": 640} for n in range(30)])
    await queue.enqueue_many("export_orders", [{"month": f"2026-{month:02}"} for month in range(1, 4)])
    for worker, entrypoint, size in (
        ("web-1:4711", "send_email", 4),
        ("web-2:5120", "send_email", 3),
        ("batch-1:88", "export_orders", 2),
        ("web-2:5120", "resize_image", 2),
    ):
        for place, job in enumerate(await queue.dequeue(entrypoint, batch_size=size, worker=worker)):
            if entrypoint == "export_orders":
                await queue.heartbeat(job, 0.35 + 0.4 * place, f"{350 + 400 * place} of 1,000 orders")
                ids["running"] = job.id
    ids["queued"] = (await queue.page(size=1, status="queued", entrypoint="send_email")).jobs[0].id
    await queue.pause("fetch_feed")
    return ids


async def _die(queue, entrypoint, number, error, trace=None):
    await queue.enqueue_many(entrypoint, [{"to": f"user-{n}@example.com"} for n in range(number)])
    for job in await queue.dequeue(entrypoint, batch_size=number, worker="web-3:901"):
        await queue.nack(job, error, trace=trace, retry=lambda failure: GiveUp())


async def fill_at(address):
    async with bucketq.connect(address) as queue:
        return await fill(queue)


if __name__ == "__main__":
    import sys

    print(asyncio.run(fill_at(sys.argv[1])))
