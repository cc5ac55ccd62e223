from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from nodes import reports
from nodes.protocol import ProtocolError, SyncRequest
from scheduler.core.types import GangReport, NodeReport, RankReport, RankState
from tests.nodes.speech import FIRST_BOOT, gang, request


def _with(**report: Any) -> SyncRequest:
    said = request(1)
    return msgspec.structs.replace(said, report=replace(said.report, **report))


def _gang(**fields: Any) -> SyncRequest:
    return request(1, replace(gang(), **fields))


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(request(1), id="an idle node"),
        pytest.param(request(1, gang(ranks=8)), id="all GPUs busy"),
        pytest.param(request(1, gang(attempt=1), gang(attempt=2)), id="two attempts of one job"),
        pytest.param(_with(faulty_gpus=(0, 7), gone_at_ms=5), id="faults and a spot notice"),
        pytest.param(_gang(ranks=(RankReport(4, RankState.FAILED, -9),)), id="killed by a signal"),
    ],
)
def test_what_a_node_can_have_seen_is_believed(said: SyncRequest) -> None:
    reports.check(said, gpus=8)


@pytest.mark.parametrize(
    ("said", "field"),
    [
        pytest.param(_with(boot_id="x"), "report.boot_id", id="a boot id of another kind"),
        pytest.param(_with(boot_id=FIRST_BOOT + "\n"), "report.boot_id", id="a line break in the boot id"),
        pytest.param(request(0), "sequence", id="message zero"),
        pytest.param(request(1 << 60), "sequence", id="a number that not every reader keeps exact"),
        pytest.param(request(1, revision=-1), "revision", id="a negative revision"),
        pytest.param(request(1, wait_s=-1.0), "wait_s", id="a negative wait"),
        pytest.param(request(1, wait_s=float("nan")), "wait_s", id="a wait that is no number"),
        pytest.param(request(1, known="x" * 65), "known", id="too long a hash"),
        pytest.param(_with(faulty_gpus=(8,)), "report.faulty_gpus", id="a GPU that the node does not have"),
        pytest.param(_with(faulty_gpus=(1, 1)), "report.faulty_gpus", id="a GPU twice"),
        pytest.param(_with(gone_at_ms=-1), "report.gone_at_ms", id="gone before 1970"),
        pytest.param(request(1, *[gang(attempt=n + 1) for n in range(33)]), "report.gangs", id="too many gangs"),
        pytest.param(request(1, gang(), gang()), "report.gangs", id="the same attempt twice"),
        pytest.param(_gang(job="../x"), "report.gangs[0].job", id="a job that is a path"),
        pytest.param(_gang(job="a\0"), "report.gangs[0].job", id="a NUL in a job's id"),
        pytest.param(_gang(attempt=0), "report.gangs[0].attempt", id="attempt zero"),
        pytest.param(_gang(saved_work_ms=-1), "report.gangs[0].saved_work_ms", id="less than no work"),
        pytest.param(_gang(saved_at_ms=1 << 60), "report.gangs[0].saved_at_ms", id="saved in a far future"),
        pytest.param(request(1, gang(ranks=9)), "report.gangs[0].ranks", id="more ranks than GPUs"),
        pytest.param(_gang(manifest="s3://" + "x" * 2048), "report.gangs[0].manifest", id="an endless address"),
        pytest.param(_gang(hindrance="x" * 301), "report.gangs[0].hindrance", id="an endless hindrance"),
        pytest.param(_gang(hindrance="a\nb"), "report.gangs[0].hindrance", id="a hindrance of several lines"),
        pytest.param(_gang(step=-1), "report.gangs[0].step", id="a negative step"),
        pytest.param(_gang(ranks=(RankReport(1, RankState.READY),) * 2), "report.gangs[0].ranks", id="a rank twice"),
        pytest.param(
            _gang(ranks=(RankReport(-1, RankState.READY),)), "report.gangs[0].ranks[0].rank", id="a negative rank"
        ),
        pytest.param(
            _gang(ranks=(RankReport(0, RankState.FAILED, 4096),)),
            "report.gangs[0].ranks[0].exit_code",
            id="no exit code of a process",
        ),
    ],
)
def test_what_it_cannot_have_seen_is_refused_by_field(said: SyncRequest, field: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        reports.check(said, gpus=8)
    assert caught.value.field == field


def test_stamps_order_messages_by_boot_then_sequence() -> None:
    stamps = [reports.stamp(NodeReport(boot, sequence=n)) for boot, n in [("1", 1), ("1", 2), ("2", 1)]]
    assert stamps == sorted(stamps)


def test_the_same_observation_twice_is_the_same_whatever_its_number() -> None:
    one = NodeReport(FIRST_BOOT, (GangReport("j", 1, ()),), sequence=1)
    assert reports.same_observation(one, replace(one, sequence=2))
    assert not reports.same_observation(one, replace(one, gangs=()))
    assert not reports.same_observation(one, replace(one, gone_at_ms=1))
