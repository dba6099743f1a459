"""Access: what the credentials allow, tried one by one."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from bucketq.doctor.finding import Finding, Level
from bucketq.doctor.room import Room
from bucketq.errors import AccessDeniedError

ABOUT = "access"

# What the clouds call it.
_PERMISSIONS = {
    "s3": {
        "create": "s3:PutObject",
        "read": "s3:GetObject",
        "list": "s3:ListBucket",
        "delete": "s3:DeleteObject",
    },
    "gs": {
        "create": "storage.objects.create",
        "read": "storage.objects.get",
        "list": "storage.objects.list",
        "delete": "storage.objects.delete",
    },
    "az": {
        "create": "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write",
        "read": "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read",
        "list": "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read",
        "delete": "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/delete",
    },
}
_NEEDED_FOR = {
    "create": "nothing can be enqueued or claimed without it",
    "read": "nothing can be read without it",
    "list": "the archive, `bucketq gc` and `bucketq verify` need it",
    "delete": "what is used up stays in the bucket without it",
}


class Access(NamedTuple):
    """What is allowed of create, read, list and delete, and what is to be told of it."""

    allowed: list[str]
    findings: list[Finding]


async def check_access(room: Room, scheme: str) -> Access:
    """Create, read, list and delete a probe. Raises StorageError, also if neither is allowed."""
    # First the queue: where not even that can be asked for, there is nothing to try.
    refusal = await _refused(room.storage.read)
    name, objects = room.name("access"), room.storage.objects

    async def list_it() -> None:
        async for _ in objects.list(name):
            pass

    steps: dict[str, Callable[[], Awaitable[object]]] = {
        "create": lambda: objects.create(name, b"bucketq doctor"),
        "read": lambda: objects.read(name),
        "list": list_it,
        "delete": lambda: objects.delete(name),
    }
    allowed: list[str] = []
    findings: list[Finding] = []
    for step, attempt in steps.items():
        error = await _refused(attempt)
        if error is None:
            allowed.append(step)
            continue
        if step == "create":
            room.names.remove(name)
            if refusal is not None:
                raise refusal
            # There is no probe to be read, but the queue could be.
            steps["read"] = room.storage.read
        permission = _PERMISSIONS.get(scheme, {}).get(step)
        missing = f"may not {step} objects here" + (f" ({permission})" if permission else "")
        advice = f"Grant it: {_NEEDED_FOR[step]}."
        findings.append(Finding(ABOUT, Level.PROBLEM, f"{missing}: {error}", advice))
    return Access(allowed, [Finding(ABOUT, Level.OK, f"may {_joined(allowed)} objects"), *findings])


async def _refused(attempt: Callable[[], Awaitable[object]]) -> AccessDeniedError | None:
    try:
        await attempt()
    except AccessDeniedError as error:
        return error
    return None


def _joined(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
