"""How a rank tells of its checkpoints, and what its agent makes of that."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodes.agent.acknowledged import FILE, MOST_ADDRESS, Acknowledgement
from scheduler.core.types import Action
from tests.nodes.agent.host import Host, now_ms, order, python

MANIFEST = "s3://bucket/prefix/job-1/m.json"
SAVES_WHEN_ASKED = """
import json, os, signal, time
asked = []
signal.signal(signal.SIGUSR2, lambda *_: asked.append(1))
print("up", flush=True)
while not asked: time.sleep(0.01)
path = os.environ["GANGWAY_RUN_DIR"] + "/checkpoint.json"
told = {"manifest": "s3://bucket/prefix/job-1/m.json", "step": 12, "saved_at_ms": time.time_ns() // 10**6}
with open(path + ".new", "w") as file: json.dump(told, file)
os.replace(path + ".new", path)
print("saved", flush=True)
time.sleep(600)
"""


def _write(path: Path, content: Any) -> None:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    (path / "new").write_bytes(raw)
    (path / "new").replace(path / FILE)


def test_a_checkpoint_asked_for_is_acknowledged_by_the_rank_that_wrote_it(host: Host) -> None:
    running = host.release(order(python(SAVES_WHEN_ASKED), ranks=2, saved_work_ms=5_000))
    for rank in (0, 1):
        host.says("up", running, rank)
    assert not host.report().acknowledged and host.report().saved_work_ms == 5_000
    asked = replace(running, action=Action.CHECKPOINT, deadline_ms=now_ms() + 60_000)
    host.told_until(lambda: host.report().acknowledged, asked)
    told = host.report()
    assert (told.manifest, told.step) == (MANIFEST, 12)
    released_ms = host.gang().record.released_ms
    assert released_ms is not None
    assert told.saved_work_ms == 5_000 + told.saved_at_ms - released_ms


def test_the_acknowledgement_outlives_the_agent(host: Host) -> None:
    running = host.release(order(python(SAVES_WHEN_ASKED)))
    host.says("up", running)
    asked = replace(running, action=Action.CHECKPOINT, deadline_ms=now_ms() + 60_000)
    host.tell(asked)
    host.restart()
    host.told_until(lambda: host.report().acknowledged, asked)
    before = host.report()
    host.restart()
    host.tell(asked)
    assert host.report() == before
    assert host.said().count("saved") == 1, "asked once"


def test_a_save_beside_the_work_is_asked_for_once_and_the_rank_goes_on(host: Host) -> None:
    running = host.release(order(python(SAVES_WHEN_ASKED)))
    host.says("up", running)
    beside = replace(running, save_ms=now_ms())
    host.told_until(lambda: host.report().manifest != "", beside)
    assert not host.report().acknowledged, "no stop has asked for it"
    assert host.gang().living


def test_a_stop_that_is_taken_back_has_to_be_acknowledged_anew(host: Host) -> None:
    running = host.release(order(python(SAVES_WHEN_ASKED)))
    host.says("up", running)
    asked = replace(running, action=Action.CHECKPOINT, deadline_ms=now_ms() + 60_000)
    host.told_until(lambda: host.report().acknowledged, asked)
    host.tell(running)
    assert not host.report().acknowledged
    host.tell(replace(asked, deadline_ms=now_ms() + 90_000))
    assert host.gang().living


@pytest.mark.parametrize(
    ("work_ms", "told_ms"),
    [
        pytest.param(None, 11_000, id="wall time"),
        pytest.param(10_500, 10_500, id="less is believed"),
        pytest.param(99_000, 11_000, id="more is cut"),
    ],
)
def test_how_much_work_a_checkpoint_holds(host: Host, work_ms: int | None, told_ms: int) -> None:
    running = host.release(order(("sleep", "600"), saved_work_ms=10_000))
    gang = host.gang()
    assert gang.record.released_ms is not None
    gang.record.released_ms -= 60_000  # so long ago
    told = {"manifest": MANIFEST, "saved_at_ms": gang.record.released_ms + 1_000}
    _write(host.ranks()[0].run_directory, told if work_ms is None else told | {"work_ms": work_ms})
    host.tell(running)
    assert host.report().saved_work_ms == told_ms


def test_the_newest_of_the_ranks_counts(host: Host) -> None:
    running = host.release(order(("sleep", "600"), ranks=2))
    for number, rank in enumerate(host.ranks()):
        _write(rank.run_directory, {"manifest": f"{MANIFEST}{number}", "saved_at_ms": now_ms() - 1000 * number})
    host.tell(running)
    assert host.report().manifest == f"{MANIFEST}0"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="half of it"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param([1], id="no object"),
        pytest.param({"step": 3}, id="no manifest"),
        pytest.param({"manifest": ""}, id="an empty manifest"),
        pytest.param({"manifest": "a\0b"}, id="a manifest that cannot be stored"),
        pytest.param({"manifest": "s3://" + "x" * MOST_ADDRESS}, id="a manifest without end"),
        pytest.param({"manifest": MANIFEST, "step": -1}, id="a step below zero"),
        pytest.param({"manifest": MANIFEST, "step": 1 << 60}, id="a step that is not exact"),
        pytest.param({"manifest": MANIFEST, "step": 10**30}, id="a step beyond all"),
        pytest.param({"manifest": MANIFEST, "saved_at_ms": "now"}, id="a time in words"),
        pytest.param({"manifest": MANIFEST, "work_ms": -5}, id="work below zero"),
    ],
)
def test_what_is_no_acknowledgement_changes_nothing(tmp_path: Path, content: Any) -> None:
    looking = Acknowledgement(tmp_path)
    _write(tmp_path, {"manifest": MANIFEST, "step": 1})
    good = looking.look()
    assert good is not None and good.step == 1
    _write(tmp_path, content)
    assert looking.look() == good


def test_neither_a_pipe_nor_a_link_nor_a_directory_is_read(tmp_path: Path) -> None:
    looking = Acknowledgement(tmp_path)
    os.mkfifo(tmp_path / FILE)
    assert looking.look() is None
    (tmp_path / FILE).unlink()
    (tmp_path / "elsewhere").write_text(json.dumps({"manifest": MANIFEST}))
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    assert looking.look() is None
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()
    assert looking.look() is None


def test_a_time_that_is_still_to_come_is_cut_to_when_it_was_written(tmp_path: Path) -> None:
    _write(tmp_path, {"manifest": MANIFEST, "saved_at_ms": now_ms() + 10_000_000})
    found = Acknowledgement(tmp_path).look()
    assert found is not None and found.saved_at_ms == found.written_ms
