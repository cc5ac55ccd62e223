"""The agent's side of the REST interface."""

from __future__ import annotations

from typing import TypeVar

import aiohttp
import msgspec

from nodes.protocol import (
    LOGS_PATH,
    REGISTER_PATH,
    SYNC_PATH,
    LogsAnswer,
    LogsRequest,
    ProtocolError,
    RegisterAnswer,
    RegisterRequest,
    SyncAnswer,
    SyncRequest,
    decode,
    encode,
)

T = TypeVar("T")

REGISTER_TIMEOUT_S = 15.0
LOGS_TIMEOUT_S = 30.0


class Problem(msgspec.Struct, frozen=True):
    """What an error's body says (RFC 9457)."""

    type: str = "about:blank"
    detail: str = ""


class Unreachable(Exception):
    """The control plane did not answer, or says that it cannot now: try again later."""


class NotRegistered(Exception):
    """The control plane does not know this token."""


class Rejected(Exception):
    """The control plane understood and says no. ``kind`` is the type of its problem detail, the text what it says."""

    def __init__(self, status: int, problem: Problem) -> None:
        super().__init__(f"{status}: {problem.detail}")
        self.kind = problem.type


class Client:
    """Speaks for any number of nodes over one pool of connections."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url.rstrip("/")

    async def register(self, request: RegisterRequest, token: str) -> RegisterAnswer:
        """Join, or tell of new inventory, as the holder of ``token``.

        Raises:
            Unreachable, NotRegistered, Rejected
        """
        raw = await self._post(REGISTER_PATH, encode(request), token, REGISTER_TIMEOUT_S)
        return _decoded(RegisterAnswer, raw)

    async def sync(self, request: SyncRequest, token: str, timeout_s: float) -> SyncAnswer:
        """Say what is and hear what should be, within ``timeout_s`` seconds.

        Raises:
            Unreachable, NotRegistered, Rejected
        """
        return _decoded(SyncAnswer, await self._post(SYNC_PATH, encode(request), token, timeout_s))

    async def logs(self, request: LogsRequest, token: str) -> LogsAnswer:
        """Hand on what the node's ranks have written.

        Raises:
            Unreachable, NotRegistered, Rejected
        """
        return _decoded(LogsAnswer, await self._post(LOGS_PATH, encode(request), token, LOGS_TIMEOUT_S))

    async def _post(self, path: str, body: bytes, token: str, timeout_s: float) -> bytes:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with self._session.post(self._url + path, data=body, headers=headers, timeout=timeout) as response:
                raw = await response.read()
                status = response.status
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unreachable(str(error) or type(error).__name__) from error
        if status == 200:
            return raw
        problem = _problem(raw)
        if status == 401:
            raise NotRegistered(problem.detail)
        if status >= 500 or status == 429:
            raise Unreachable(f"{status}: {problem.detail}")
        raise Rejected(status, problem)


def _problem(raw: bytes) -> Problem:
    try:
        return decode(Problem, raw)
    except ProtocolError:
        # A proxy in between answers in its own way; the status still says what happened.
        return Problem()


def _decoded(kind: type[T], raw: bytes) -> T:
    try:
        return decode(kind, raw)
    except ProtocolError as error:
        raise Unreachable(f"the answer is not one of ours: {error}") from error
