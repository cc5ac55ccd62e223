"""Stores that do not answer for a while: seen by a web process, kept once they are back, told as incidents."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone

from portal.outage_watch import OutageWatch
from portal.views import incidents
from scheduler import outages
from scheduler.models import Job, StoreOutage
from scheduler.outages import Outage
from tests.portal.pages.conftest import ada, fleet, make_job, picture, show, store, tree

__all__ = ["ada", "fleet", "make_job", "picture", "show", "store", "tree"]
START = datetime(2026, 4, 19, 12, tzinfo=UTC)
ALL = ("etcd", "postgresql", "redis", "s3")


class Stage:
    """A watch that asks once a second; ``play`` takes who was silent in each of the seconds, by its first letter."""

    def __init__(self) -> None:
        self.second = -1
        self.silent = ""
        self.kept: list[tuple[str, int, int]] = []
        self.refusals = 0
        self.watch = OutageWatch(self.ask, self.record, lambda: START + timedelta(seconds=self.second))

    def ask(self) -> dict[str, str]:
        return {store: "no answer" if store[0] in self.silent else "ok" for store in ALL}

    def record(self, seen: Outage) -> None:
        if self.refusals:
            self.refusals -= 1
            raise DatabaseError("not yet")
        start, end = (round((moment - START).total_seconds()) for moment in (seen.start, seen.end))
        self.kept.append((seen.store, start, end))

    def play(self, *seconds: str) -> None:
        for self.silent in seconds:
            self.second += 1
            self.watch.step()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("seconds", "kept"),
    [
        pytest.param(["", "e", "e", "e", ""], [("etcd", 1, 4)], id="kept once it is back"),
        pytest.param(["e", ""], [], id="a single silence is none"),
        pytest.param(["r", "", "r", ""], [], id="two single ones neither"),
        pytest.param(["r", "r"], [], id="not before it is back"),
        pytest.param(["es", "es", "s", ""], [("etcd", 0, 2), ("s3", 0, 3)], id="each by itself"),
        pytest.param(["ep", "ep", "p", ""], [("etcd", 0, 2), ("postgresql", 0, 3)], id="PostgreSQL keeps both later"),
    ],
)
def test_an_outage_is_kept_from_its_first_silence_to_the_answer(
    seconds: list[str], kept: list[tuple[str, int, int]]
) -> None:
    stage = Stage()
    stage.play(*seconds)
    assert stage.kept == kept


@pytest.mark.django_db
def test_what_cannot_be_kept_yet_is_kept_with_the_next_look() -> None:
    stage = Stage()
    stage.refusals = 1
    stage.play("r", "r", "", "")
    assert stage.kept == [("redis", 0, 2)]


@pytest.mark.django_db
def test_who_is_away_now_is_known() -> None:
    stage = Stage()
    stage.play("r", "r")
    assert stage.watch.away == {"redis": START}
    stage.play("")
    assert stage.watch.away == {}


def at(minutes: float) -> datetime:
    return timezone.now() - timedelta(minutes=minutes)


@pytest.mark.django_db
def test_two_processes_that_saw_the_same_one_keep_it_once() -> None:
    outages.record(Outage("etcd", at(10), at(8)))
    outages.record(Outage("etcd", at(9.9), at(7.9)))
    outages.record(Outage("redis", at(10), at(8)))
    outages.record(Outage("etcd", at(3), at(2)))
    assert sorted(StoreOutage.objects.values_list("store", flat=True)) == ["etcd", "etcd", "redis"]
    longest = StoreOutage.objects.filter(store="etcd").order_by("start")[0]
    assert longest.end - longest.start > timedelta(minutes=2)


@pytest.mark.usefixtures("fleet")
def test_the_page_tells_what_the_system_did_and_what_happened_meanwhile(ada: Client, make_job) -> None:  # type: ignore[no-untyped-def]
    job = make_job(live=False)
    Job.objects.filter(pk=job.pk).update(submitted_at=at(9))
    outages.record(Outage("etcd", at(10), at(8)))
    outages.record(Outage("s3", at(10 * 24 * 60), at(10 * 24 * 60 - 1)))
    page = ada.get("/incidents/")
    (line,) = page.context["before"]
    assert line.meanwhile == "1 job was accepted meanwhile."
    text = page.content.decode()
    assert "etcd did not answer" in text
    assert "waited in the outbox" in text
    assert "The object storage" not in text


@pytest.mark.usefixtures("fleet")
def test_a_store_that_is_away_is_an_alert(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    stage.play("r", "r")
    monkeypatch.setattr(incidents, "watch", stage.watch)
    assert "Redis does not answer" in ada.get("/incidents/").content.decode()


@pytest.mark.parametrize(
    ("accepted", "ended", "said"),
    [
        (0, 0, "No job was accepted and none ended meanwhile."),
        (1, 0, "1 job was accepted meanwhile."),
        (12, 3, "12 jobs were accepted and 3 attempts ended meanwhile."),
        (0, 1, "1 attempt ended meanwhile."),
    ],
)
def test_counts_in_words(accepted: int, ended: int, said: str) -> None:
    assert incidents._meanwhile(accepted, ended) == said
