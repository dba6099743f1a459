"""A FastAPI service that answers at once and leaves the work to a worker.

    cd examples
    fastapi run fastapi_app.py                       # or any other ASGI server
    bucketq work fastapi_app:jobs
    curl localhost:8000/signups -H 'content-type: application/json' -d '{"email": "alice@example.com"}'

It needs FastAPI, and for `fastapi run` all of `fastapi[standard]`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from bucketq import App, JobFailedError, JobNotFoundError

jobs = App((Path.cwd() / "queue.json").as_uri())


class Signup(BaseModel):
    email: str
    name: str = "friend"


@jobs.job(max_attempts=5)
async def welcome(signup: Signup) -> str:
    """The model that came by HTTP is the argument: checked here, and again where it runs."""
    return f"Welcome, {signup.name}! We will write to {signup.email}."


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with jobs:
        yield


api = FastAPI(lifespan=lifespan)


@api.post("/signups", status_code=202)
async def sign_up(signup: Signup) -> dict[str, str]:
    """When this answers, the job is stored. All requests that come meanwhile share its write."""
    job = await welcome.using(key=f"welcome {signup.email}").enqueue(signup)
    return {"job": job.id}


@api.get("/signups/{job_id}")
async def look(job_id: str) -> dict[str, Any]:
    """How far it is; with its result, once there is one."""
    try:
        return {"status": "completed", "result": await welcome.result(job_id, timeout=0.1)}
    except TimeoutError:
        return {"status": "waiting"}
    except JobFailedError as error:
        return {"status": "failed", "error": error.error}
    except JobNotFoundError as error:
        raise HTTPException(404, "no such job") from error
