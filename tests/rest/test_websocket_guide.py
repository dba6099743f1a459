"""The two programs of docs/websocket.md work together: one in a browser submits, one in Python works."""

import asyncio
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.acceptance.served import served
from tests.dashboard.browser import browser, opened
from tests.docs.blocks import blocks


def block(language, address):
    [found] = blocks("docs/websocket.md", language)
    return found.text.replace("localhost:8420", address)


async def test_a_page_submits_what_a_program_in_python_does(tmp_path):
    async with browser() as chromium:
        with site() as origin, served(f"file://{tmp_path}/queue.json", "--cors-origin", origin) as broker:
            broker.wait_for("leading")
            async with opened(chromium) as page:
                await page.goto(origin)
                async with page.expect_console_message() as told_first:
                    await page.evaluate(f"async () => {{ {block('js', broker.http)} }}")
                async with page.expect_console_message() as told_last:
                    assert await work(block("python", broker.http)) == "{'image': 7}\n"
                stats, result = [(await told.value).args[0] for told in (told_first, told_last)]
                assert (await stats.json_value())["unclaimed"] == 1
                done = await result.json_value()
    assert (done["status"], done["result"]) == ("completed", {"size": 64})


@contextmanager
def site():
    """A site of its own with one empty page; its origin, while the block runs."""
    with ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()

    def log_message(self, *parts):
        pass


async def work(program):
    """Let a program in Python run to its end; return what it has printed."""
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=pipe)
    printed, _ = await asyncio.wait_for(running.communicate(), 60)
    return printed.decode()
