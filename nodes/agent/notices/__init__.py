"""What a host's provider says is coming over it, read from the metadata server of AWS, GCP or Azure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import aiohttp

from nodes.agent.notices.aws import Aws
from nodes.agent.notices.azure import Azure
from nodes.agent.notices.board import Board
from nodes.agent.notices.gcp import Gcp

METADATA = {
    "aws": "http://169.254.169.254",
    "gcp": "http://metadata.google.internal",
    "azure": "http://169.254.169.254",
}
"""Where each provider's metadata server is, unless a setting says otherwise."""


class Watch(Protocol):
    """Reads one provider for ever and keeps a board up to date."""

    async def run(self) -> None:
        """Until cancelled."""


def watch(
    provider: str,
    session: aiohttp.ClientSession,
    board: Board,
    now_ms: Callable[[], int],
    url: str = "",
    vacated: Callable[[str], bool] = lambda _: False,
    resource: str = "",
) -> Watch:
    """What reads ``provider``.

    Args:
        url: the base address of its metadata server; "" for the provider's own.
        vacated: whether the control plane has heard of the notice of this id and no rank is left on the host since.
        resource: the host's own name among the resources of its provider's events (Azure); "" for any.

    Raises:
        KeyError: there is no such provider.
    """
    base = url or METADATA[provider]
    match provider:
        case "aws":
            return Aws(session, base, board, now_ms)
        case "gcp":
            return Gcp(session, base, board, now_ms)
        case _:
            return Azure(session, base, board, now_ms, vacated, resource)
