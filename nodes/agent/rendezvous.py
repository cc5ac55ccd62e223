"""The port at which a gang's ranks meet, kept free on the host of rank 0 while the gang gets ready."""

from __future__ import annotations

import socket

import structlog

log = structlog.get_logger(__name__)


class Port:
    """A port that nobody else on this host is given, until ``release``: bound, and not listened at.

    Args:
        number: the one to keep; 0 for any that is free.

    Raises:
        OSError: it is taken.
    """

    def __init__(self, number: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.bind(("", number))
        except OSError:
            self._socket.close()
            raise
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Let go of it: rank 0 is about to take it."""
        self._socket.close()


def kept_again(number: int) -> Port | None:
    """The port that an earlier life of this agent has told the leader; None where it is taken by now.

    It cannot be told anew, so if it is, rank 0 finds it taken: its exit then says so.
    """
    try:
        return Port(number)
    except OSError as error:
        log.warning("a port for a rendezvous was taken while the agent was away", port=number, error=str(error))
        return None
