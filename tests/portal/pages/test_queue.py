"""The queue's page: narrowed by its address, with who waits for what and who is in whose way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from scheduler import clock
from scheduler.core.types import JobDecision, Reason, Reservation, Reservations
from scheduler.expected import Expected
from scheduler.models import Job
from scheduler.store import keys

pytestmark = pytest.mark.usefixtures("fleet")
Make = Callable[..., Job]


def shown(client: Client, query: str = "") -> list[str]:
    return [one["row"].name for one in client.get(f"/queue/{query}").context["rows"]]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["first", "second"]),
        ("?team=vision&type=H100", ["first", "second"]),
        ("?team=speech", []),
        ("?type=L40S", []),
        ("?why=fragmented", ["second"]),
        ("?order=age", ["first", "second"]),
        ("?team=%00&order=nonsense", ["first", "second"]),
    ],
)
def test_the_address_narrows_it(
    ada: Client, make_job: Make, show: Callable[..., None], query: str, names: list[str]
) -> None:
    make_job(name="first")
    second = make_job(name="second")
    show({keys.decision_job(second.pk): JobDecision(reason=Reason.FRAGMENTED)})
    assert shown(ada, query.replace("fragmented", Reason.FRAGMENTED.value)) == names


def test_a_choice_that_nobody_fits_says_so_and_stays_chosen(ada: Client, make_job: Make) -> None:
    make_job()
    page = ada.get("/queue/?type=L40S").content.decode()
    assert '<option value="L40S" selected>' in page
    assert "Show the whole queue" in page


def test_expected_starts_stand_beside_the_reasons(ada: Client, make_job: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    known, unknown = make_job(name="known"), make_job(name="unknown-yet")
    found = Expected(starts={known.pk: clock.now_ms() + 7_200_500})
    monkeypatch.setattr("portal.views.queue.expected_starts", lambda: found)
    page = ada.get("/queue/").content.decode()
    assert "in 2 h 00 min" in page
    assert page.count(">unknown<") == 1, unknown


def test_who_waits_for_what_counts_the_whole_queue(eve: Client, make_job: Make) -> None:
    for _ in range(3):
        make_job()
    demand = eve.get("/queue/").context["demand"]
    assert demand.types == ["H100"]
    assert [(one.team, one.jobs, one.gpus) for one in demand.teams] == [("vision", 3, [24])]


def test_who_is_on_promised_hosts_is_told_by_team_alone(eve: Client, make_job: Make, show: Callable[..., None]) -> None:
    runs, waits = make_job(name="secret-run", on={"h1": (0, 1, 2)}), make_job(name="secret-wait")
    promise = Reservation(("h1",), clock.now_ms() + 3_600_000, waits.pk, gpu_type="H100", takes=(8,))
    show({keys.DECISION_RESERVATIONS: Reservations((promise,))})
    page = eve.get("/queue/")
    (hold,) = page.context["holds"]
    assert [(one.team, one.jobs, one.gpus) for one in hold.holders] == [("vision", 1, 3)]
    text = page.content.decode()
    assert "1 job of vision, 3 GPUs" in text
    assert "secret" not in text
    assert runs.pk not in text
