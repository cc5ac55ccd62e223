"""From a report to the verdict, and what follows from it: in PostgreSQL, in the job's intent, in the bucket."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from scheduler.checkpoints import verify
from scheduler.checkpoints.models import Checkpoint, State
from scheduler.checkpoints.reported import note
from scheduler.core.types import Event, EventKind, Phase
from scheduler.models import Outbox
from scheduler.services import intent_of
from tests.objects import Faults
from tests.scheduler.checkpoints.conftest import START, START_MS, Shelf

pytestmark = pytest.mark.django_db


def test_one_that_is_whole_is_good_and_the_scheduler_hears_nothing(shelf: Shelf) -> None:
    shelf.report(shelf.save(10, files={"a": b"xyz", "b": b""}))
    assert shelf.look() == 1
    row = shelf.row(10)
    assert (row.state, row.size, row.files, row.work_ms, row.look_at) == (State.GOOD, 3, 2, 60_000, None)
    assert shelf.fresh().torn is None


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        pytest.param({"manifest.json": b'{"format": "gang'}, "cannot be read", id="a torn manifest"),
        pytest.param({"manifest.json": b"[]"}, "cannot be read", id="another document"),
        pytest.param({"manifest.json": b"\xff\xfe"}, "cannot be read", id="bytes"),
        pytest.param({"manifest.json": None}, "manifest is not there", id="no manifest"),
        pytest.param({"state": None}, "state is not there", id="a lost file"),
        pytest.param({"state": b"state at 1-2x"}, "not what was saved", id="another content"),
        pytest.param({"state": b"sta"}, "has 3 bytes", id="a cut file"),
    ],
)
def test_a_newest_one_that_is_torn_sends_the_job_to_the_one_before(
    shelf: Shelf, damage: dict[str, bytes | None], why: str
) -> None:
    old, new = shelf.save(10), shelf.save(20)
    for name, content in damage.items():
        at = new.manifest if name == "manifest.json" else new.file(name)
        if content is None:
            shelf.objects.delete(at.bucket, [at.key])
        else:
            shelf.objects.put(at, content)
    shelf.report(old, new)
    shelf.look()
    assert shelf.states() == {"1-20": State.TORN, "1-10": State.GOOD}
    assert why in shelf.row(20).why
    torn = intent_of(shelf.fresh()).torn
    assert torn is not None
    assert (torn.manifests, torn.instead, torn.work_ms) == ((str(new.manifest),), str(old.manifest), 60_000)
    assert why in torn.why
    assert Outbox.objects.count() >= 1


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param({"job": "01J00000000000000000000000"}, id="of another job"),
        pytest.param({"step": 11}, id="of another step"),
        pytest.param({"attempt": 9}, id="of another attempt"),
        pytest.param({"format": "checkpoint/2"}, id="of another format"),
        pytest.param({"saved_at_ms": -1}, id="from before time"),
        pytest.param({"files": [{"name": "../x", "size": 1, "sha256": ""}]}, id="that names a file elsewhere"),
    ],
)
def test_a_manifest_that_is_not_its_own_is_torn(shelf: Shelf, manifest: dict[str, Any]) -> None:
    shelf.report(shelf.save(10, says=manifest))
    shelf.look()
    assert shelf.states() == {"1-10": State.TORN}
    torn = intent_of(shelf.fresh()).torn
    assert torn is not None
    assert torn.instead == ""


def test_a_large_file_is_believed_by_its_size_and_its_stored_digest(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "READ_UP_TO", 4)
    place = shelf.save(10, files={"state": b"large enough"})
    shelf.report(place)
    shelf.look()
    assert shelf.row(10).state == State.GOOD, "nobody stored a digest: the size has to do"
    other = shelf.save(20, files={"state": b"large enough"})
    at = other.file("state")
    shelf.objects._s3.put_object(Bucket=at.bucket, Key=at.key, Body=b"large_enough", Metadata={"sha256": "f" * 64})
    shelf.report(other)
    shelf.look()
    assert shelf.row(20).state == State.TORN


def test_one_torn_among_older_ones_changes_nothing(shelf: Shelf) -> None:
    torn, newest = shelf.save(10, says={"format": "x"}), shelf.save(20)
    shelf.report(torn, newest)
    shelf.look()
    assert shelf.fresh().torn is None


def test_the_one_to_fall_back_on_is_looked_at_again(shelf: Shelf) -> None:
    places = [shelf.save(step) for step in (10, 20)]
    shelf.report(*places)
    shelf.look()
    shelf.objects.delete(places[1].bucket, [places[1].file("state").key])
    places.append(shelf.save(30, says={"format": "x"}))
    shelf.report(places[2])
    shelf.look()
    torn = intent_of(shelf.fresh()).torn
    assert torn is not None
    assert torn.instead == str(places[0].manifest)
    assert torn.manifests == (str(places[2].manifest), str(places[1].manifest))


def test_when_a_job_goes_back_to_the_queue_its_newest_is_looked_at_again(shelf: Shelf) -> None:
    old, new = shelf.save(10), shelf.save(20)
    shelf.report(old, new)
    shelf.look()
    shelf.objects.put(new.file("state"), b"rotten")
    release = Event(EventKind.RELEASE, START_MS, shelf.job.pk, None, 1, {"phase": Phase.PENDING.value})
    assert note([release], {shelf.job.pk: shelf.job}, shelf.now)
    shelf.look()
    assert shelf.states() == {"1-20": State.TORN, "1-10": State.GOOD}


def test_what_lies_elsewhere_is_shown_and_left_alone(shelf: Shelf, faults: Faults) -> None:
    detail = {"manifest": "s3://elsewhere/manifest.json", "step": 5, "work_ms": 9, "saved_at_ms": 1 << 52}
    event = Event(EventKind.CHECKPOINT, START_MS, shelf.job.pk, None, 1, detail)
    assert not note([event], {shelf.job.pk: shelf.job}, shelf.now)
    before = faults.requests
    assert shelf.look() == 0
    row = Checkpoint.objects.get()
    assert (row.state, row.saved_at) == (State.ELSEWHERE, START)
    assert faults.requests == before


def test_the_same_events_again_change_nothing(shelf: Shelf) -> None:
    place = shelf.save(10)
    shelf.report(place)
    shelf.look()
    shelf.report(place)
    assert shelf.look() == 0
    assert shelf.states() == {"1-10": State.GOOD}


# --- object storage misbehaves


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 500}, id="answers 500"),
        pytest.param({"status": 503}, id="asks to slow down"),
        pytest.param({"status": 403}, id="refuses"),
        pytest.param({"gone": True}, id="hangs up"),
        pytest.param({"status": 500, "only": "HEAD"}, id="fails half-way"),
    ],
)
def test_storage_that_says_nothing_condemns_nobody(shelf: Shelf, faults: Faults, fault: dict[str, Any]) -> None:
    shelf.report(shelf.save(10), shelf.save(20))
    for name, value in fault.items():
        setattr(faults, name, value)
    shelf.look()
    assert shelf.states() == {"1-20": State.REPORTED, "1-10": State.REPORTED}
    row = shelf.row(10)
    assert row.tries == 1
    assert row.troubled_at is not None
    assert row.why
    assert shelf.fresh().torn is None
    faults.heal()
    shelf.look(60)
    assert shelf.states() == {"1-20": State.GOOD, "1-10": State.GOOD}
    assert (shelf.row(10).tries, shelf.row(10).troubled_at) == (0, None)


def test_a_bucket_that_is_gone_condemns_nobody_either(shelf: Shelf) -> None:
    place = shelf.save(10)
    shelf.report(place)
    shelf.objects.delete(place.bucket, [place.manifest.key, place.file("state").key])
    shelf.objects._s3.delete_bucket(Bucket=place.bucket)
    shelf.look()
    assert shelf.states() == {"1-10": State.REPORTED}


def test_the_pauses_grow_and_have_a_bound(shelf: Shelf, faults: Faults) -> None:
    shelf.report(shelf.save(10))
    faults.status = 500
    pauses = []
    for _ in range(9):
        shelf.look(0)
        due = shelf.row(10).look_at
        assert due is not None
        pauses.append((due - shelf.now).total_seconds())
        shelf.now = due
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_storage_that_hangs_holds_up_one_thread_for_seconds(
    shelf: Shelf, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request that times out ends the round: the rest is not tried one by one."""
    shelf.report(*(shelf.save(step) for step in range(10, 15)))
    before = faults.requests
    faults.gone = True
    shelf.look()
    assert faults.requests == before + 1
    assert Checkpoint.objects.filter(tries=0, look_at__lte=shelf.now + timedelta(seconds=1)).count() == 4


def test_a_crash_while_looking_leaves_it_due(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.report(shelf.save(10))

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("scheduler.checkpoints.services.verify", crash)
        with pytest.raises(KeyboardInterrupt):
            shelf.look()
    assert shelf.states() == {"1-10": State.REPORTED}
    assert shelf.look(10) == 0, "it is claimed"
    assert shelf.look(120) == 1
    assert shelf.states() == {"1-10": State.GOOD}


# --- what saving takes


def test_what_saving_took_replaces_the_guess(shelf: Shelf) -> None:
    shelf.report(shelf.save(10, says={"took_ms": 42_000}))
    shelf.look()
    saves = intent_of(shelf.fresh()).spec.checkpoint
    assert saves is not None
    assert saves.takes_ms == 42_000
    version = shelf.fresh().intent_version
    shelf.report(shelf.save(20, says={"took_ms": 45_000}))
    shelf.look()
    assert shelf.fresh().intent_version == version, "a little more or less changes nothing"


def test_a_job_that_is_over_is_told_nothing_any_more(shelf: Shelf) -> None:
    shelf.job.state = Phase.SUCCEEDED.value
    shelf.job.save()
    shelf.report(shelf.save(10, says={"format": "x"}))
    shelf.look()
    assert shelf.states() == {"1-10": State.TORN}
    assert shelf.fresh().torn is None
