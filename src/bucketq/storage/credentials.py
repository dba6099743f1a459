"""Credentials for obstore: given ones, and those that a cloud's own Python client holds.

Nothing of those clients is imported here: whatever has their methods will do.
"""

import asyncio
import importlib
import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obstore.store import AzureBearerToken, GCSCredential, S3Credential

# botocore renews what has less than ten minutes left, and obstore asks five before the end.
_SESSION_TTL = timedelta(minutes=10)
_AZURE_SCOPE = "https://storage.azure.com/.default"


class KeyCredentials:
    """Keys that were given; obstore itself would mix them with the environment's session token."""

    def __init__(self, access_key_id: str, secret_access_key: str, session_token: str | None) -> None:
        self._credential: S3Credential = {
            "access_key_id": access_key_id,
            "secret_access_key": secret_access_key,
            "token": session_token,
            "expires_at": None,
        }

    def __call__(self) -> "S3Credential":
        return self._credential


class SessionCredentials:
    """The credentials of a boto3, botocore or aioboto3 session."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def __call__(self) -> "S3Credential":
        credentials = await _call(self._session.get_credentials)
        if credentials is None:
            raise PermissionError("the session has no credentials")
        frozen = await _call(credentials.get_frozen_credentials)
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + _SESSION_TTL,
        }


class ClientCredentials:
    """The credentials of a google.cloud.storage client."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    async def __call__(self) -> "GCSCredential":
        if not self._credentials.valid:
            await _call(self._refresh)
        expires_at = self._credentials.expiry
        return {
            "token": self._credentials.token,
            # google-auth keeps UTC times without saying so.
            "expires_at": expires_at.replace(tzinfo=UTC) if expires_at else None,
        }

    def _refresh(self) -> None:
        transport = importlib.import_module("google.auth.transport.requests")
        self._credentials.refresh(transport.Request())


class TokenCredentials:
    """The tokens of an azure.identity credential, sync or async."""

    def __init__(self, credential: Any) -> None:
        self._credential = credential

    async def __call__(self) -> "AzureBearerToken":
        token = await _call(lambda: self._credential.get_token(_AZURE_SCOPE))
        return {"token": token.token, "expires_at": datetime.fromtimestamp(token.expires_on, UTC)}


async def _call(function: Callable[[], Any]) -> Any:
    # In a thread, because to get credentials may take a request.
    result = await asyncio.to_thread(function)
    return await result if inspect.isawaitable(result) else result
