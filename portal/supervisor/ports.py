"""Loopback ports for servers that this machine starts."""

from __future__ import annotations

import random
import socket

# Below Linux's ephemeral range (32768 up): a client that reconnects to a port of that range on loopback while its
# server is down can be given the same port as its own, connect to itself, and keep the server from coming back.
FIRST, LAST = 20_000, 32_000


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that nothing listens on.

    Raises:
        OSError: none could be found.
    """
    for _ in range(200):
        port = random.randint(FIRST, LAST)
        if is_free(port):
            return port
    raise OSError(f"no free port between {FIRST} and {LAST} on 127.0.0.1")
