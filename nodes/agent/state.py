"""What an agent keeps on disk: its node's token and how often it has started. The file is the owner's alone (0600)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from nodes.agent.files import write_private

FILE = "agent.json"


class StateUnusable(Exception):
    """The state file cannot be read or written, or is not one. The message is one line."""


class Membership(msgspec.Struct):
    """A node's own token, and the inventory (as a hash) that was last registered with it; empty: none yet."""

    token: str
    registered: str = ""


class _Kept(msgspec.Struct):
    generation: int = 0
    nodes: dict[str, Membership] = {}


class State:
    """The memberships of the nodes that this process is the agent of, in one file of the directory ``path``.

    ``generation`` counts the starts: it has risen by one, on disk, before anything is done in its name. A token is on
    disk before it is sent anywhere, so that a crash at any moment leaves an agent that can prove who it is.
    """

    def __init__(self, path: Path, new_token: Callable[[], str]) -> None:
        self._file = path / FILE
        self._new_token = new_token
        self._kept = self._load()
        self._saved = b""

    @property
    def generation(self) -> int:
        return self._kept.generation

    def begin(self, nodes: list[str]) -> None:
        """Start a new generation in which these nodes are ours; those that are new get a token.

        Raises:
            StateUnusable: it cannot be written.
        """
        self._kept.generation += 1
        for node in nodes:
            self._kept.nodes.setdefault(node, Membership(self._new_token()))
        self.save()

    def membership(self, node: str) -> Membership:
        """The node's membership, to be changed in place and saved."""
        return self._kept.nodes[node]

    def save(self) -> None:
        """Write what changed, in one step: a crash leaves the old file or the new one.

        Raises:
            StateUnusable: it cannot be written.
        """
        raw = msgspec.json.encode(self._kept)
        if raw == self._saved:
            return
        try:
            self._write(raw)
        except OSError as error:
            raise StateUnusable(f"cannot write {self._file}: {error.strerror}") from error
        self._saved = raw

    def _write(self, raw: bytes) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(self._file, raw)

    def _load(self) -> _Kept:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return _Kept()
        except OSError as error:
            raise StateUnusable(f"cannot read {self._file}: {error.strerror}") from error
        except msgspec.MsgspecError as error:
            raise StateUnusable(f"{self._file} is not an agent's state: {error}") from error
