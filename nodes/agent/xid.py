"""What the NVIDIA driver tells the kernel's log of the GPUs, and what follows from it.

The log is read from its beginning, which is the host's boot: so an agent that starts again knows which GPUs are out of
order. What an earlier life of the agent has read is on disk by its number, and is not told to history a second time.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nodes.agent import catalogue
from scheduler.core.types import GpuFault, Notice, NoticeKind, Remedy

TOLD = 32
"""The newest faults that a report carries."""
FOLD_MS = 600_000
"""The same Xid of the same GPU and attempt within this time is the same fault."""
TRUST_AFTER_MS = 30_000
"""So long after a fault the driver's word that nothing needs to be done is believed."""

_LINE = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)[^)]*\): (\d{1,5})\b(.*)")
_BUS = re.compile(r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{1,2}):([0-9A-Fa-f]{1,2})(?:\.[0-9A-Fa-f])?")

Holder = Callable[[int], tuple[str, int] | None]


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the kernel's log: its number and moment, and the text."""

    number: int
    at_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Xid:
    """A line about a GPU. ``bus`` is its address on the bus, as ``bus_of`` writes it."""

    bus: str
    xid: int
    text: str


def bus_of(address: str) -> str | None:
    """A PCI address (``00000000:10:1C.0``, ``0000:10:1c``) written one way; None if it is none."""
    found = _BUS.fullmatch(address)
    if found is None:
        return None
    domain, bus, device = (int(part or "0", 16) for part in found.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}"


def parsed(text: str) -> Xid | None:
    """The Xid that a line tells of, None if it tells of none."""
    found = _LINE.search(text)
    bus = bus_of(found[1]) if found else None
    return Xid(bus, int(found[2]), found[3].lstrip(", ")) if found and bus else None


class GpuHealth:
    """The GPUs of one host by what the driver says of them.

    Args:
        index_of: the index of each GPU by its address on the bus (see ``bus_of``).
        holder: the job and attempt that has a GPU now.
        told_up_to: the number of the newest record that was told to history already, and the newest moment given.
    """

    def __init__(self, index_of: Mapping[str, int], holder: Holder, told_up_to: int = -1, newest_ms: int = 0) -> None:
        self._index_of = index_of
        self._holder = holder
        self.told_up_to = told_up_to
        self.newest_ms = newest_ms
        self._faults: deque[GpuFault] = deque(maxlen=TOLD)
        self._bad: dict[int, GpuFault] = {}
        self.last: dict[int, int] = {}
        """The newest Xid of each GPU."""

    @property
    def faults(self) -> tuple[GpuFault, ...]:
        return tuple(self._faults)

    @property
    def faulty(self) -> tuple[int, ...]:
        """The GPUs that take no work, ascending."""
        return tuple(sorted(self._bad))

    @property
    def notices(self) -> tuple[Notice, ...]:
        """That the host has to be restarted, as long as a GPU of it needs that."""
        waiting = [fault for fault in self._bad.values() if fault.remedy is Remedy.REBOOT_HOST]
        if not waiting:
            return ()
        first = min(waiting, key=lambda fault: fault.at_ms)
        return (Notice(NoticeKind.REPAIR, f"xid-{first.xid}-gpu-{first.gpu}"),)

    def take(self, record: Record) -> bool:
        """Take in a record of the log; answers whether a report has something new to say."""
        found = parsed(record.text)
        if found is None:
            self.told_up_to = max(self.told_up_to, record.number)
            return False
        gpu = self._index_of.get(found.bus)
        known = record.number <= self.told_up_to
        fault = self._fault(found, gpu, record.at_ms, known)
        changed = self._judge(fault) if gpu is not None else False
        if known:
            return changed
        self.told_up_to = record.number
        if self._folded(fault):
            return changed
        self.newest_ms = fault.at_ms
        self._faults.append(fault)
        return True

    def _fault(self, found: Xid, gpu: int | None, at_ms: int, known: bool) -> GpuFault:
        job, attempt = "", 0
        if gpu is not None:
            self.last[gpu] = found.xid
            # Who held it when an old record was written is not known any more.
            job, attempt = (None if known else self._holder(gpu)) or ("", 0)
        remedy = catalogue.remedy(found.xid, found.text)
        own = found.xid in catalogue.OWN
        return GpuFault(found.xid, remedy, max(at_ms, self.newest_ms + 1), gpu, job, attempt, own)

    def _judge(self, fault: GpuFault) -> bool:
        """Whether the GPU takes work from now on; answers whether that is another answer than before."""
        assert fault.gpu is not None
        before = fault.gpu in self._bad
        if fault.xid == catalogue.RECOVERY and fault.remedy is Remedy.IGNORE:
            return self._bad.pop(fault.gpu, None) is not None
        if fault.xid in catalogue.OUT_OF_ORDER or fault.xid == catalogue.RECOVERY:
            worse = fault.remedy is Remedy.REBOOT_HOST or not before
            if worse:
                self._bad[fault.gpu] = fault
            return worse
        return False

    def _folded(self, fault: GpuFault) -> bool:
        return any(
            (one.gpu, one.xid, one.remedy, one.job, one.attempt)
            == (fault.gpu, fault.xid, fault.remedy, fault.job, fault.attempt)
            and fault.at_ms - one.at_ms < FOLD_MS
            for one in self._faults
        )

    def hear_recovery(self, gpu: int, action: int, now_ms: int) -> bool:
        """Take in what the driver says by NVML that the GPU needs; answers whether that changed anything.

        That nothing needs to be done ends what the driver itself asked for, not what a person has to look at.
        """
        wanted, bad = catalogue.recovery(action), self._bad.get(gpu)
        if wanted is Remedy.IGNORE:
            over = bad is not None and bad.remedy is not Remedy.WORKFLOW and now_ms - bad.at_ms >= TRUST_AFTER_MS
            if over:
                del self._bad[gpu]
            return over
        if bad is not None and (bad.remedy is wanted or wanted is not Remedy.REBOOT_HOST):
            return False
        self.newest_ms = max(now_ms, self.newest_ms + 1)
        job, attempt = self._holder(gpu) or ("", 0)
        fault = GpuFault(catalogue.RECOVERY, wanted, self.newest_ms, gpu, job, attempt)
        self._bad[gpu] = fault
        self._faults.append(fault)
        return True
