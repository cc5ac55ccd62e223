"""What a report says of the host beside its ranks, put together from all that is read."""

from __future__ import annotations

from pathlib import Path

from nodes.agent.kmsg import KernelLog
from nodes.agent.watchers import Kept, Watchers
from nodes.agent.xid import GpuHealth
from nodes.telemetry import GpuReading
from scheduler.core.types import NodeReport, Notice, NoticeKind

NOW_MS = 2_000_000


class Host:
    def __init__(self, directory: Path) -> None:
        self.file = directory / "kmsg"
        self.kept = Kept(directory)
        self.changes = 0
        told = self.kept.load()
        self.health = GpuHealth({"0000:10:1c": 3}, lambda _: None, told.number, told.newest_ms)
        self.watchers = Watchers(self.health, KernelLog(self.file, 0), self.kept, None, lambda: NOW_MS)
        self.watchers.listen(self._changed)
        self.board = self.watchers.board

    def _changed(self) -> None:
        self.changes += 1

    def write(self, *lines: str) -> None:
        with self.file.open("a") as file:
            for line in lines:
                file.write(f"{line}\n")


def xid(number: int, xid: int) -> str:
    return f"3,{number},{number * 1000},-;NVRM: Xid (PCI:0000:10:1c): {xid}, pid=1"


def test_a_report_has_the_faults_and_what_is_coming(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.board.put("aws", (Notice(NoticeKind.TERMINATE, "t", 99), Notice(NoticeKind.REBALANCE, "r")))
    host.write(xid(1, 79))
    assert host.watchers.read_log()
    report = host.watchers.observed().on(NodeReport("boot"))
    assert (report.faulty_gpus, report.gone_at_ms, [f.xid for f in report.faults]) == ((3,), 99, [79])
    assert [notice.kind.value for notice in report.notices] == ["terminate", "rebalance", "repair"]
    assert host.changes == 2


def test_what_the_log_told_is_shown_without_a_library(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.write(xid(1, 79))
    host.watchers.read_log()
    assert host.watchers.telemetry().gpus == (GpuReading(3, xid=79),)


def test_what_says_nothing_new_wakes_nobody(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.write("3,1,1,-;usb 1-1: new device", xid(2, 31), xid(3, 31))
    host.watchers.read_log()
    host.watchers.read_log()
    assert host.changes == 1


def test_after_its_own_restart_nothing_is_told_twice(tmp_path: Path) -> None:
    before = Host(tmp_path)
    before.write(xid(1, 79))
    before.watchers.read_log()
    after = Host(tmp_path)
    after.watchers.read_log()
    observed = after.watchers.observed()
    assert (observed.faulty_gpus, observed.faults) == ((3,), ())


def test_a_log_that_cannot_be_read_is_counted_in_the_telemetry(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert not host.watchers.read_log()
    telemetry = host.watchers.telemetry()
    assert (telemetry.source, telemetry.unread) == ("none", {"kernel log": 1})


def test_the_drivers_own_word_counts(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.watchers.take_readings((GpuReading(3, 50.0),), {3: 1})
    assert host.watchers.observed().faulty_gpus == (3,)
    assert host.watchers.telemetry().gpus == (GpuReading(3, 50.0),)
    host.watchers.take_readings((GpuReading(3, 50.0),), {3: 1})
    assert host.changes == 1
