"""The page of one host: what its GPUs read, what its driver told, what is held against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from nodes.readings import Readings
from nodes.telemetry import GpuReading, Telemetry
from scheduler import clock, connections
from scheduler.core.types import (
    GangReport,
    NodeDecision,
    NodeReport,
    Notice,
    NoticeKind,
    Phase,
    RankReport,
    RankState,
    Window,
)
from scheduler.models import Job, JobEvent
from scheduler.store import keys

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fleet")]
HOUR = 3_600_000


@pytest.fixture(autouse=True)
def cache(redis_url: str, settings: Any) -> Iterator[None]:
    settings.REDIS_URL = redis_url
    connections.close()
    yield
    connections.close()
    with redis.Redis.from_url(redis_url) as used:
        used.delete("gangway:telemetry:h1")


def tell(*readings: GpuReading, unread: dict[str, int] | None = None) -> None:
    told = Readings(connections.cache)
    told.note("h1", Telemetry(clock.now_ms(), "nvml", readings, unread or {}))
    told.send()


def event(number: int, kind: str, **detail: Any) -> None:
    JobEvent.objects.create(
        entry=f"e{number}", position=0, revision=number, kind=kind, at=timezone.now(), node="h1", detail=detail
    )


def page(client: Client, path: str = "") -> str:
    answer = client.get(f"/cluster/hosts/h1/{path}")
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_each_gpu_is_shown_with_what_it_reads(ada: Client) -> None:
    tell(GpuReading(0, 97.0, 70_000.0, 11_559.0, 61.4, 612.3, 63), GpuReading(1, temperature_c=91.0))
    shown = page(ada)
    for words in ("Read by NVML", "97 %", "61 °C", "68 GiB", "612 W", '<td class="number">63</td>'):
        assert words in shown
    assert '<span class="hot">91 °C</span>' in shown
    assert "97 %, <span>61 °C</span>" in page(ada, "panel/")


def test_a_host_that_tells_nothing_says_so(ada: Client) -> None:
    assert "No readings" in page(ada)
    tell(unread={"kernel log": 12})
    assert "The agent could not read: kernel log (12×)." in page(ada)


def test_without_redis_the_page_stands(ada: Client, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    connections.close()
    assert "No readings" in page(ada)
    connections.close()


def test_faults_name_what_they_call_for_and_the_readers_own_jobs(
    ada: Client, eve: Client, make_job: Callable[..., Job]
) -> None:
    job = make_job(on={"h1": (3,)}, name="mine")
    event(1, "gpu", gpu=3, state="XID", xid=94, remedy="restart_app", job=job.pk)
    event(2, "gpu", gpu=3, state="XID", xid=79, remedy="reboot_host", job="")
    event(3, "gpu", gpu=3, state="FAULTY")
    event(4, "host", state="SUSPECT", why="no sign of life")
    shown = page(ada)
    for words in ("program restarted", "host to be restarted", "mine", "no sign of life"):
        assert words in shown
    assert "another team’s" in page(eve) and "mine" not in page(eve)


def test_what_keeps_a_job_from_being_prepared_is_told_to_those_who_may_know_the_job(
    ada: Client, eve: Client, make_job: Callable[..., Job], show: Callable[..., None]
) -> None:
    job = make_job(on={"h1": (0,)}, state=Phase.STARTING, name="mine")
    hindered = GangReport(job.pk, 1, (RankReport(0, RankState.PREPARING),), hindrance="no space left")
    show({keys.report("h1"): NodeReport("00000001-00000000", (hindered,))})
    assert f'It cannot prepare <a href="/jobs/{job.pk}/">mine</a>: no space left' in page(ada)
    assert "It cannot prepare another team’s job" in page(eve) and "no space left" not in page(eve)


def test_what_is_held_against_a_host(ada: Client, show: Callable[..., None], make_job: Callable[..., Job]) -> None:
    job = make_job(name="failed-here", live=False)
    now = clock.now_ms()
    decision = NodeDecision(flaps=(now - 1, now), failures=((now - HOUR, job.pk),), probation_ms=now + HOUR, relapses=2)
    report = NodeReport("00000001-aaaaaaaa", notices=(Notice(NoticeKind.REBALANCE, "r"),))
    show({keys.decision_node("h1"): decision, keys.report("h1"): report})
    shown = page(ada)
    for words in ("of 5 that set it aside", "less is forgiven until then", "failed-here", "may take it away soon"):
        assert words in shown


def test_a_host_that_is_set_aside_says_until_when(ada: Client, show: Callable[..., None]) -> None:
    now = clock.now_ms()
    show({keys.decision_node("h1"): NodeDecision(quarantine=Window(now, now + HOUR))})
    assert "<dt>Set aside</dt><dd>until" in page(ada)


def test_the_part_that_changes_is_had_by_itself(ada: Client) -> None:
    shown = page(ada, "live/")
    assert "<html" not in shown and 'id="hostlive"' in shown
    assert ada.get("/cluster/hosts/h99/live/").status_code == 404
    assert Client().get("/cluster/hosts/h1/live/").status_code == 302


def test_the_page_asks_for_as_much_whatever_has_happened(
    ada: Client, django_assert_max_num_queries: DjangoAssertNumQueries, make_job: Callable[..., Job]
) -> None:
    for number in range(30):
        event(number, "gpu", gpu=1, state="XID", xid=31, remedy="restart_app", job=make_job(live=False).pk)
    with django_assert_max_num_queries(10):
        page(ada, "live/")
