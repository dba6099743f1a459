"""A broker that lets nobody in without a token, and how to ask it something with one."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import grpc
import grpc.aio
import httpx

from bucketq import LocalFileSystemStorage
from bucketq.broker.access import Role
from bucketq.broker.serving import serving
from bucketq.broker.tokens import Tokens, new_token
from bucketq.v1 import queue_pb2 as pb

SERVICE = pb.DESCRIPTOR.services_by_name["Queue"]


@asynccontextmanager
async def guarded(folder):
    """A broker with a token of each role, another worker's, and one that has expired."""
    secrets, tokens = {"none": None, "wrong": "bq_wrong"}, []
    for role in Role:
        secrets[role], token = new_token(f"a-{role}", [role])
        tokens.append(token)
    secrets["expired"], token = new_token("an-old-admin", ["admin"], datetime.now(UTC) - timedelta(days=1))
    secrets["other worker"], other = new_token("another-worker", ["worker"])
    storage = LocalFileSystemStorage(folder / "queue.json")
    async with serving(storage, tokens=Tokens([*tokens, token, other])) as running:
        while not running.is_leading:
            await asyncio.sleep(0.01)
        yield SimpleNamespace(grpc=running.address, http=f"http://{running.http}", secrets=secrets)


def bearer(secret):
    return {"authorization": f"Bearer {secret}"} if secret else {}


@asynccontextmanager
async def asking(broker, way):
    """Asks by messages, over gRPC or over HTTP."""
    if way == "grpc":
        async with grpc.aio.insecure_channel(broker.grpc) as channel:

            async def ask(method, request, response, kind):
                call = channel.unary_unary(f"/{SERVICE.full_name}/{method}")
                content = request.SerializeToString()
                metadata = tuple(bearer(broker.secrets[kind]).items())
                return response.FromString(await call(content, metadata=metadata, timeout=20))

            yield ask
        return
    async with httpx.AsyncClient(base_url=broker.http, timeout=20) as client:

        async def ask(method, request, response, kind):
            headers = bearer(broker.secrets[kind])
            content = request.SerializeToString()
            answer = await client.post(f"/v1/rpc/{method}", content=content, headers=headers)
            assert answer.status_code == 200, answer.content
            return response.FromString(answer.content)

        yield ask
