"""The barest FastAPI app that takes JSON and gives it back: what the framework costs by itself.

python -m bench.echo      prints the port that it listens on
"""

import asyncio
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI

app = FastAPI()


@app.post("/echo")
async def echo(body: dict[str, Any]) -> dict[str, Any]:
    """Give back what came."""
    return body


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(app, http="httptools", lifespan="off", log_config=None, access_log=False)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))
