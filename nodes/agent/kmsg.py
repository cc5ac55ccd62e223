"""The kernel's log, ``/dev/kmsg`` or a file like it, read record by record from the beginning and then as it grows."""

from __future__ import annotations

import os
import re
from pathlib import Path

from nodes.agent.xid import Record

CHUNK = 65_536
"""A read of ``/dev/kmsg`` answers one record, and fails if it does not fit."""
MOST_A_TURN = 4_096
"""Records that one turn reads, so that a flood does not keep the agent from its work."""
MOST_PENDING = 1 << 20

_HEAD = re.compile(r"\d+,(\d+),(\d+),[^;]*;(.*)")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
STAT = Path("/proc/stat")


class LogUnreadable(Exception):
    """The log cannot be opened or read now."""


def machine_boot() -> str:
    """What names this boot of the machine; "" where the kernel does not say."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def booted_ms() -> int:
    """When the machine booted, in milliseconds since 1970: what the log's own clock counts from."""
    try:
        found = re.search(r"^btime (\d+)", STAT.read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) * 1000 if found else 0


class KernelLog:
    """The log at ``path``. ``booted_ms`` is the moment from which its records count."""

    def __init__(self, path: Path, booted_ms: int) -> None:
        self._path = path
        self._booted_ms = booted_ms
        self._file: int | None = None
        self._pending = b""

    def read(self) -> list[Record]:
        """The records that have come since the last call, oldest first.

        Raises:
            LogUnreadable: it is not there, or not for us to read; the next call begins anew.
        """
        try:
            return self._read()
        except OSError as error:
            self.close()
            raise LogUnreadable(f"{self._path}: {error.strerror}") from error

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file, self._pending = None, b""

    def _read(self) -> list[Record]:
        if self._file is None:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        records: list[Record] = []
        while len(records) < MOST_A_TURN:
            try:
                chunk = os.read(self._file, CHUNK)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # records were written over before we came to them: the next read goes on behind them
            if not chunk:
                break
            records += self._taken(chunk)
        return records

    def _taken(self, chunk: bytes) -> list[Record]:
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        if len(self._pending) > MOST_PENDING:
            self._pending = b""
        found = (self._record(line.decode("utf-8", "replace")) for line in lines)
        return [record for record in found if record is not None]

    def _record(self, line: str) -> Record | None:
        """One record, None for a line that belongs to the one before it."""
        head = _HEAD.fullmatch(line)
        if head is None:
            return None
        return Record(int(head[1]), self._booted_ms + int(head[2]) // 1000, head[3])
