"""The helper for training scripts: whole or not there, the newest that is whole, and what is told."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.objects import Faults, behind_faults

JOB = "01J0000000000000000000000A"


@pytest.fixture
def make(helper: ModuleType, bucket: str, s3_url: str, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """The helper as rank 0 of one rank finds it; keywords replace what is in its environment."""
    former = signal.getsignal(signal.SIGUSR2)

    def build(**environ: str) -> Any:
        known = {"GANGWAY_JOB_ID": JOB, "GANGWAY_ATTEMPT": "1", "RANK": "0", "WORLD_SIZE": "1"}
        known |= {"GANGWAY_CHECKPOINT_PATH": f"s3://{bucket}/team/run/", "GANGWAY_S3_URL": s3_url}
        known |= {"GANGWAY_RUN_DIR": str(tmp_path)}
        return helper.Checkpoints(known | environ)

    yield build
    signal.signal(signal.SIGUSR2, former)


def resumed(make: Callable[..., Any], attempt: int = 2) -> Any:
    return make(GANGWAY_ATTEMPT=str(attempt), GANGWAY_RESUME_FROM="s3://whatever").resume()


def key(step: int, name: str = "manifest.json", attempt: int = 1) -> str:
    return f"team/run/{JOB}/a{attempt:05}-s{step:012}/{name}"


def test_what_is_saved_is_what_is_resumed(make: Callable[..., Any]) -> None:
    assert make().save(10, {"a.bin": b"first", "b.bin": b""})
    found = resumed(make)
    assert (found.step, found.files) == (10, {"a.bin": b"first", "b.bin": b""})


def test_the_newest_is_taken_by_attempt_and_then_by_step(make: Callable[..., Any]) -> None:
    make().save(90, {"x": b"a1"})
    make(GANGWAY_ATTEMPT="2").save(9, {"x": b"a2-9"})
    make(GANGWAY_ATTEMPT="2").save(70, {"x": b"a2-70"})
    assert resumed(make, 3).files == {"x": b"a2-70"}


def test_a_first_attempt_begins_anew_whatever_lies_there(make: Callable[..., Any]) -> None:
    make().save(10, {"x": b"1"})
    assert make(GANGWAY_RESUME_FROM="").resume() is None


def test_another_jobs_checkpoints_below_the_same_address_are_not_ours(make: Callable[..., Any]) -> None:
    make(GANGWAY_JOB_ID="01J0000000000000000000000B").save(99, {"x": b"theirs"})
    make().save(10, {"x": b"ours"})
    assert resumed(make).files == {"x": b"ours"}


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        pytest.param("manifest.json", b'{"format": "gang', "cannot be read", id="a torn manifest"),
        pytest.param("manifest.json", b"[]", "cannot be read", id="another document"),
        pytest.param("manifest.json", b'{"format": "x", "job": "y", "files": []}', "another's", id="another format"),
        pytest.param("x", b"twO", "not what was saved", id="a flipped bit"),
        pytest.param("x", b"tw", "not what was saved", id="a cut file"),
        pytest.param("x", None, "is not there", id="a lost file"),
        pytest.param("manifest.json", None, "", id="a commit that never came"),
    ],
)
def test_a_newest_one_that_is_not_whole_is_skipped_and_told(
    make: Callable[..., Any], s3: Any, bucket: str, capfd: Any, name: str, content: bytes | None, why: str
) -> None:
    make().save(10, {"x": b"one"})
    make().save(20, {"x": b"two"})
    if content is None:
        s3.delete_object(Bucket=bucket, Key=key(20, name))
    else:
        s3.put_object(Bucket=bucket, Key=key(20, name), Body=content)
    assert resumed(make).step == 10
    told = capfd.readouterr().out
    assert why in told
    assert "skipped" in told or not why


def test_where_none_is_whole_it_begins_anew(make: Callable[..., Any], s3: Any, bucket: str) -> None:
    make().save(10, {"x": b"one"})
    s3.put_object(Bucket=bucket, Key=key(10, "x"), Body=b"other")
    assert resumed(make) is None


def test_the_agent_is_told_when_it_lies_there(make: Callable[..., Any], tmp_path: Path, bucket: str) -> None:
    make().save(10, {"x": b"one"})
    told = json.loads((tmp_path / "checkpoint.json").read_text())
    assert (told["step"], told["manifest"]) == (10, f"s3://{bucket}/{key(10)}")
    assert told["saved_at_ms"] > 0


def test_the_signal_asks_and_a_save_answers(make: Callable[..., Any]) -> None:
    checkpoints = make()
    assert not checkpoints.asked
    os.kill(os.getpid(), signal.SIGUSR2)
    assert checkpoints.asked
    checkpoints.save(10, {"x": b""})
    assert not checkpoints.asked


def test_several_ranks_have_to_agree(make: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="agree"):
        make(WORLD_SIZE="2").save(1, {})


def test_the_other_ranks_acknowledge_what_rank_0_has_saved(make: Callable[..., Any], tmp_path: Path, s3: Any) -> None:
    other = make(RANK="1", WORLD_SIZE="2")
    assert not other.save(10, {"x": b"one"}, lambda _: False)
    assert not (tmp_path / "checkpoint.json").exists()
    assert other.save(10, {"x": b"one"}, lambda _: True)
    assert json.loads((tmp_path / "checkpoint.json").read_text())["step"] == 10


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 500}, id="answers 500"),
        pytest.param({"status": 507}, id="is full"),
        pytest.param({"gone": True}, id="hangs up"),
    ],
)
def test_a_store_that_fails_fails_the_save_and_not_the_training(
    make: Callable[..., Any], s3_url: str, tmp_path: Path, fault: dict[str, Any]
) -> None:
    with behind_faults(s3_url) as faults:
        checkpoints = make(GANGWAY_S3_URL=faults.url)
        checkpoints.asked = True
        _break(faults, fault)
        assert not checkpoints.save(10, {"x": b"one"})
        assert checkpoints.asked, "it is still to be saved"
        assert not (tmp_path / "checkpoint.json").exists()
        faults.heal()
        assert checkpoints.save(11, {"x": b"one"})


def _break(faults: Faults, fault: dict[str, Any]) -> None:
    for name, value in fault.items():
        setattr(faults, name, value)


def test_a_resume_waits_for_a_store_that_does_not_answer(
    make: Callable[..., Any], helper: ModuleType, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make().save(10, {"x": b"one"})
    with behind_faults(s3_url) as faults:
        faults.status = 503
        paused: list[float] = []

        def pause(seconds: float) -> None:
            paused.append(seconds)
            if len(paused) == 3:
                faults.heal()

        monkeypatch.setattr(helper, "time", SimpleNamespace(sleep=pause))
        found = make(GANGWAY_S3_URL=faults.url, GANGWAY_RESUME_FROM="s3://x").resume()
    assert found.step == 10
    assert paused == [0.5, 1.0, 2.0]
