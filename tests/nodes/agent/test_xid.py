"""Xid lines of the kernel's log: what they mean for the GPU, the attempt on it and the host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodes.agent import catalogue
from nodes.agent.kmsg import KernelLog, LogUnreadable
from nodes.agent.xid import GpuHealth, Record, Xid, bus_of, parsed
from scheduler.core.types import GpuFault, NoticeKind, Remedy

BUSES = {"0000:10:1c": 0, "0000:10:1d": 1}
MINUTE = 60_000


def line(xid: int, bus: str = "0000:10:1c", text: str = "pid=1896, name=python3, GPU has fallen off the bus.") -> str:
    return f"NVRM: Xid (PCI:{bus}): {xid}, {text}"


class Host:
    """The health of two GPUs, the first of them held by ``job``'s first attempt."""

    def __init__(self, told_up_to: int = -1) -> None:
        self.health = GpuHealth(BUSES, lambda gpu: ("job", 1) if gpu == 0 else None, told_up_to)
        self.number = 0
        self.now_ms = 1_000_000

    def tell(self, text: str, after_ms: int = 0) -> bool:
        self.number += 1
        self.now_ms += after_ms
        return self.health.take(Record(self.number, self.now_ms, text))

    @property
    def last(self) -> GpuFault:
        return self.health.faults[-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "NVRM: Xid (PCI:0000:10:1c): 79, pid=1896, GPU has fallen off the bus.",
            Xid("0000:10:1c", 79, "pid=1896, GPU has fallen off the bus."),
            id="as the driver writes it",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0000:c6:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            Xid("0000:c6:00", 79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
            id="of a process that is not known",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
            Xid("0008:01:00", 154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
            id="in another domain",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0000:10:1c GPU-I:05): 31, pid=7", Xid("0000:10:1c", 31, "pid=7"), id="of a slice of a GPU"
        ),
        pytest.param("NVRM: GPU 0000:10:1c.0: GPU has fallen off the bus.", None, id="another line of the driver"),
        pytest.param("NVRM: Xid (PCI:0000:66:00): abc, pid=2280636", None, id="without a number"),
        pytest.param("NVRM: Xid (PCI:zz): 79", None, id="without an address"),
        pytest.param("usb 1-1: new device", None, id="anything else"),
    ],
)
def test_lines(text: str, expected: Xid | None) -> None:
    assert parsed(text) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        pytest.param("00000000:10:1C.0", "0000:10:1c", id="as NVML writes it"),
        pytest.param("0000:10:1c", "0000:10:1c", id="as the kernel writes it"),
        pytest.param("10:1c.0", "0000:10:1c", id="as lspci writes it"),
        pytest.param("GPU-1", None, id="none"),
    ],
)
def test_addresses_are_written_one_way(address: str, expected: str | None) -> None:
    assert bus_of(address) == expected


@pytest.mark.parametrize(
    ("xid", "text", "remedy", "out"),
    [
        pytest.param(43, "", Remedy.IGNORE, False, id="43: ignore"),
        pytest.param(63, "", Remedy.IGNORE, False, id="63: ignore"),
        pytest.param(31, "", Remedy.RESTART_APP, False, id="31: restart the program"),
        pytest.param(94, "", Remedy.RESTART_APP, False, id="94: restart the program"),
        pytest.param(95, "", Remedy.RESET_GPU, True, id="95: reset"),
        pytest.param(119, "", Remedy.RESET_GPU, True, id="119: reset"),
        pytest.param(79, "", Remedy.REBOOT_HOST, True, id="79: restart the host"),
        pytest.param(45, "", Remedy.WORKFLOW, False, id="45: says nothing by itself"),
        pytest.param(48, "", Remedy.WORKFLOW, True, id="48: for a person"),
        pytest.param(149, "", Remedy.WORKFLOW, True, id="149: for a person"),
        pytest.param(
            154, "changed from 0x0 (None) to 0x1 (GPU Reset Required)", Remedy.RESET_GPU, True, id="154: reset"
        ),
        pytest.param(154, "changed from 0x0 (None) to 0x2 (OS Reboot)", Remedy.REBOOT_HOST, True, id="154: reboot"),
        pytest.param(154, "changed from 0x0 (None) to 0x9 (Dance)", Remedy.WORKFLOW, True, id="154: what is new"),
        pytest.param(154, "changed", Remedy.WORKFLOW, True, id="154: without a number"),
        pytest.param(999, "", Remedy.IGNORE, False, id="one that is not in the catalogue"),
    ],
)
def test_the_catalogue(xid: int, text: str, remedy: Remedy, out: bool) -> None:
    host = Host()
    assert host.tell(line(xid, text=text))
    assert (host.last.xid, host.last.remedy, host.last.gpu) == (xid, remedy, 0)
    assert host.health.faulty == ((0,) if out else ())


def test_every_number_has_one_remedy() -> None:
    groups = [catalogue.IGNORED, catalogue.RESTARTED, catalogue.RESET, catalogue.REBOOTED, catalogue.WORKFLOWS]
    assert sum(map(len, groups)) == len(frozenset().union(*groups))


def test_a_fault_names_the_attempt_that_had_the_gpu() -> None:
    host = Host()
    host.tell(line(94))
    assert (host.last.job, host.last.attempt, host.last.own) == ("job", 1, False)
    host.tell(line(31))
    assert host.last.own
    host.tell(line(79, "0000:10:1d"))
    assert (host.last.gpu, host.last.job) == (1, "")


def test_a_device_that_is_none_of_ours_is_noted_and_stops_nothing() -> None:
    host = Host()
    assert host.tell(line(79, "0000:99:00"))
    assert host.last.gpu is None
    assert (host.health.faulty, host.health.notices) == ((), ())


def test_a_storm_of_the_same_fault_is_told_once_until_it_has_been_quiet() -> None:
    host = Host()
    assert host.tell(line(31))
    assert not any(host.tell(line(31), 1000) for _ in range(100))
    assert host.tell(line(31), 11 * MINUTE)
    assert len(host.health.faults) == 2


def test_moments_differ_and_rise_even_where_the_log_has_one() -> None:
    host = Host()
    for xid in (31, 43, 45, 94):
        host.tell(line(xid))
    host.tell(line(63), -MINUTE)
    moments = [fault.at_ms for fault in host.health.faults]
    assert moments == sorted(set(moments))


def test_the_host_has_to_be_restarted_as_long_as_a_gpu_needs_it() -> None:
    host = Host()
    host.tell(line(79))
    (notice,) = host.health.notices
    assert notice.kind is NoticeKind.REPAIR
    host.tell(line(154, text="GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"))
    assert (host.health.notices, host.health.faulty) == ((), ())


@pytest.mark.parametrize(
    ("xid", "after_ms", "over"),
    [
        pytest.param(95, 31_000, True, id="a reset that is done"),
        pytest.param(95, 1_000, False, id="a word older than the fault"),
        pytest.param(48, 31_000, False, id="what a person has to look at"),
    ],
)
def test_the_drivers_word_that_all_is_well(xid: int, after_ms: int, over: bool) -> None:
    host = Host()
    host.tell(line(xid))
    assert host.health.hear_recovery(0, 0, host.now_ms + after_ms) is over
    assert host.health.faulty == (() if over else (0,))


def test_the_driver_may_ask_for_what_no_line_told() -> None:
    host = Host()
    assert host.health.hear_recovery(1, 2, 5_000_000)
    assert not host.health.hear_recovery(1, 2, 5_005_000)
    assert (host.health.faulty, host.last.remedy) == ((1,), Remedy.REBOOT_HOST)


def test_a_restarted_agent_knows_what_is_out_of_order_and_tells_nothing_twice() -> None:
    first = Host()
    first.tell(line(79))
    first.tell(line(31))
    again = GpuHealth(BUSES, lambda _: ("job", 1), first.health.told_up_to, first.health.newest_ms)
    again.take(Record(1, 1_000_000, line(79)))
    again.take(Record(2, 1_000_000, line(31)))
    assert (again.faulty, again.faults, again.last) == ((0,), (), {0: 31})
    again.take(Record(3, 1_000_000, line(95)))
    assert again.faults[0].at_ms > first.health.faults[-1].at_ms


# --- the log itself


def kmsg(number: int, usec: int, text: str) -> str:
    return f"3,{number},{usec},-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:10:1c.0\n"


def test_the_log_is_read_from_its_beginning_and_as_it_grows(tmp_path: Path) -> None:
    file = tmp_path / "kmsg"
    file.write_text(kmsg(1, 5_000_000, "first") + kmsg(2, 6_000_000, "second")[:-10])
    log = KernelLog(file, 1_000)
    assert log.read() == [Record(1, 6_000, "first"), Record(2, 7_000, "second")]
    with file.open("a") as more:
        more.write("\n3,3,7000000,-;third")
    assert log.read() == []
    with file.open("a") as more:
        more.write("\n")
    assert log.read() == [Record(3, 8_000, "third")]
    log.close()


def test_what_is_no_record_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "kmsg"
    file.write_bytes(b"\xff\xfe;\n,,;\n3,x,1,-;no\n\n" + b"x" * 2_000_000 + b"\n3,9,1000,c,caller=T1;yes \xff\n")
    log = KernelLog(file, 0)
    assert [record.number for record in log.read()] == [9]
    log.close()


def test_a_log_that_is_not_there_is_tried_again(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "kmsg", 0)
    with pytest.raises(LogUnreadable, match="No such file"):
        log.read()
    (tmp_path / "kmsg").write_text(kmsg(1, 0, "here"))
    assert [record.text for record in log.read()] == ["here"]
    log.close()


def test_a_pipe_that_has_nothing_more_is_no_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kmsg")
    keep = os.open(tmp_path / "kmsg", os.O_RDWR)
    log = KernelLog(tmp_path / "kmsg", 0)
    assert log.read() == []
    os.write(keep, kmsg(1, 0, "now").encode())
    assert [record.text for record in log.read()] == ["now"]
    log.close()
    os.close(keep)
