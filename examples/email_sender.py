"""Email in the background: one process enqueues, another one sends.

    cd examples
    python email_sender.py alice@example.com bob@example.com
    bucketq work email_sender:app

They share `queue.json` in the current folder. What is sent lands in the Maildir `outbox`; a real sender
would have a connection to its mail server there.
"""

import asyncio
import sys
from collections.abc import Iterator
from email.message import EmailMessage
from mailbox import Maildir
from pathlib import Path

from bucketq import App, provided
from bucketq.retry import exponential

app = App((Path.cwd() / "queue.json").as_uri())


@app.resource
def outbox() -> Iterator[Maildir]:
    """Opened once a worker, and given to every handler that asks for one."""
    maildir = Maildir("outbox")
    yield maildir
    maildir.close()


@app.job(max_attempts=5, retry=exponential(first_s=10, cap_s=3600), timeout=30)
def send_email(to: str, subject: str, outbox: Maildir = provided()) -> str:
    """A plain function, so it runs in a thread. What it raises is a reason to try again later."""
    if "@" not in to:
        raise ValueError(f"{to!r} is no address")
    message = EmailMessage()
    message["To"], message["Subject"] = to, subject
    message.set_content(f"Dear {to},\n\nwelcome!\n")
    return outbox.add(message)


async def main(addresses: list[str]) -> None:
    async with app:
        ids = await send_email.enqueue_many({"to": to, "subject": "Welcome"} for to in addresses)
        print(f"enqueued {len(ids)} mails")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
