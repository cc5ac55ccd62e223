"""One request to a metadata server, and the moments that its answers name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp

TIMEOUT_S = 2.0
MOST_BYTES = 256 * 1024


class MetadataError(Exception):
    """The metadata server cannot be read, or says what makes no sense."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    text: str
    headers: Mapping[str, str]


class Metadata:
    """The metadata server at ``base``. Redirects are not followed: it is the host's own and sends nobody elsewhere."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self._base = base.rstrip("/")

    async def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Answer:
        """Its answer, whatever the status.

        Raises:
            MetadataError: there is none.
        """
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        url = self._base + path
        try:
            async with self._session.request(
                method, url, headers=dict(headers), data=body, timeout=timeout, allow_redirects=False
            ) as response:
                raw = await response.content.read(MOST_BYTES)
                return Answer(response.status, raw.decode("utf-8", "replace"), response.headers)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise MetadataError(f"{path}: {str(error) or type(error).__name__}") from error


def expected(answer: Answer, what: str) -> str:
    """The text of an answer that should be there.

    Raises:
        MetadataError: it is not.
    """
    if answer.status != 200:
        raise MetadataError(f"{what}: status {answer.status}")
    return answer.text


def iso_ms(text: str) -> int:
    """A moment as AWS writes it, ``2017-09-18T08:22:00Z``, in milliseconds since 1970.

    Raises:
        ValueError: it is none.
    """
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def http_date_ms(text: str) -> int:
    """A moment as mail and HTTP write it, ``Mon, 11 Apr 2026 22:26:58 GMT`` with the day or without.

    Raises:
        ValueError: it is none.
    """
    moment = parsedate_to_datetime(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
