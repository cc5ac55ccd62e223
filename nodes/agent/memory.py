"""What an agent must not forget when it ends: the orders in force, and until when it may go on with them.

``duty.json`` is written when the orders change; ``lease.json`` with every renewal while there are any, for the agent's
next life and for the keepers, which end their ranks by it whether an agent lives or not.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from nodes.agent import keeper
from nodes.agent.duty import Duty, KeptDuty
from nodes.agent.files import write_private

log = structlog.get_logger(__name__)

T = TypeVar("T")

DUTY_FILE, LEASE_FILE = "duty.json", "lease.json"
LEASE_BYTES = 256


class Lease(msgspec.Struct, frozen=True):
    """Until when, by ``keeper.clock_ms`` of one run of the kernel; None while that is not known."""

    boot: str
    until_ms: int | None


class Memory:
    """The files of one agent's duty in the directory ``state``."""

    def __init__(self, state: Path) -> None:
        self._duty_file = state / DUTY_FILE
        self.lease_file = state / LEASE_FILE
        self._boot = keeper.kernel_boot()
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._duty: KeptDuty | None = None
        self._lease: Lease | None = None

    def recall(self) -> Duty:
        """The duty of the last life. What cannot be read counts as nothing: its ranks are then not gone on with."""
        duty = _record(self._duty_file, KeptDuty)
        lease = _record(self.lease_file, Lease)
        if duty is None:
            return Duty()
        self._duty = duty
        held = lease.until_ms if lease is not None and lease.boot == self._boot else None
        return Duty.restored(duty, held)

    def keep(self, duty: Duty) -> None:
        """Write down what has changed.

        Raises:
            OSError: it cannot be written.
        """
        kept = duty.kept()
        if kept != self._duty:
            write_private(self._duty_file, msgspec.json.encode(kept))
            self._duty = kept
        lease = Lease(self._boot, duty.held_until_ms)
        if kept.assignments and lease != self._lease:
            # Without orders it is left as it is: of ranks that were given up, the keepers shall go on to see its end.
            self._write_lease(msgspec.json.encode(lease))
            self._lease = lease

    def _write_lease(self, raw: bytes) -> None:
        """In place, always as many bytes: a disk that is full must not end the ranks of this host."""
        handle = os.open(self.lease_file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(handle, raw.ljust(LEASE_BYTES), 0)
        finally:
            os.close(handle)


def _record(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        log.error("what an agent had kept cannot be read", path=str(path), error=str(error))
        return None
