"""Budgets and prices: who sees and sets which, what is refused, what the audit tells, and what a stop does."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from portal.accounts.models import User
from quotas.models import Budget, Price, QuotaNode
from scheduler import clock
from scheduler.core.types import JobSpec
from scheduler.models import Act, Job
from tests.portal.api.conftest import Api, body, problem
from tests.portal.pages.conftest import signed_in
from tests.portal.people import make_user
from tests.scheduler.builders import charge_spans, row_of_job

pytestmark = pytest.mark.usefixtures("fleet")
PAGE = "/usage/budgets/"
BUDGET = {
    "node": "vision",
    "period": "month",
    "gpu_hours": "10",
    "warn_percent": "80",
    "stop_percent": "100",
    "reason": "spring",
}
PRICE = {"gpu_type": "H100", "since": "2026-01-01", "gpu_hour": "2.50", "reason": "list"}


@pytest.fixture
def root(tree: None) -> Client:
    """An admin of research."""
    return signed_in(make_user("root", "research", admin=True))


@pytest.fixture
def boss(tree: None) -> Client:
    return signed_in(make_user("boss", is_superuser=True))


def text(response: Any, status: int = 200) -> str:
    assert response.status_code == status, response.content[:2000]
    return " ".join(response.content.decode().split())


def hold(hours: int) -> None:
    """A job of vision's has held so many GPU-hours, in a second of today: so never in the month before."""
    now = clock.to_datetime(clock.now_ms())
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    ada, gpus = User.objects.get(username="ada"), hours * 3_600
    job = row_of_job(JobSpec("0" * 26, "vision", gpus, "H100", 2, 1, 0), QuotaNode.objects.get(name="vision"), ada)
    charge_spans(job, gpus, "H100", [(midnight, midnight + timedelta(seconds=1))])


def test_an_admin_above_sets_it_and_the_audit_tells(root: Client, ada: Client) -> None:
    assert "The budget of vision is set" in text(root.post(PAGE, BUDGET, follow=True))
    row, act = Budget.objects.get(), Act.objects.get()
    assert (row.gpu_hours, row.stop_percent, row.reason) == (10, 100, "spring")
    assert (act.act, act.target, act.reason, act.detail["gpu_hours"]) == ("budget", "vision", "spring", 10)
    assert "vision" in text(ada.get(PAGE))
    assert "The budget of vision is taken away" in text(root.post(PAGE, {**BUDGET, "gpu_hours": ""}, follow=True))
    assert "No budget is in force" in text(ada.get(PAGE))


def test_others_neither_set_nor_see_it(root: Client, ada: Client, eve: Client) -> None:
    assert ada.post(PAGE, BUDGET).status_code == 403
    root.post(PAGE, BUDGET)
    assert "No budget is in force" in text(eve.get(PAGE))
    assert Client().get(PAGE).status_code == 302


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"node": "research"}, "Node is no node whose budget you may set"),
        ({"node": "\x00"}, "Node is no node whose budget you may set"),
        ({"period": "year"}, "Period is neither month nor quarter"),
        ({"gpu_hours": "many"}, "Gpu hours is no whole number"),
        ({"gpu_hours": "99999999999"}, "Gpu hours is no whole number"),
        ({"warn_percent": "-1"}, "Warn percent is no whole number"),
        ({"stop_percent": "1001"}, "Stop percent is no whole number"),
        ({"reason": " "}, "Reason is missing"),
    ],
)
def test_what_makes_no_sense_is_told_by_field(root: Client, changed: dict[str, str], word: str) -> None:
    assert word in text(root.post(PAGE, {**BUDGET, **changed}), 400)
    assert not Budget.objects.exists()


def test_administrators_set_prices(root: Client, boss: Client) -> None:
    assert root.post(PAGE, PRICE).status_code == 403
    assert "An hour of H100 costs 2.50" in text(boss.post(PAGE, PRICE, follow=True))
    boss.post(PAGE, {**PRICE, "gpu_hour": "3"})
    assert Price.objects.get().gpu_hour == Decimal(3)
    assert Act.objects.latest("pk").detail["before"] == "2.5000"
    for changed in ({"gpu_hour": "-1"}, {"since": "2026-02-30"}, {"gpu_type": ""}, {"reason": ""}):
        text(boss.post(PAGE, {**PRICE, **changed}), 400)


def test_the_audit_shows_both(boss: Client) -> None:
    boss.post(PAGE, BUDGET)
    boss.post(PAGE, PRICE)
    page = text(boss.get("/audit/"))
    assert "Change a budget" in page
    assert "Change a price" in page


def test_at_the_stop_new_jobs_are_refused_and_the_same_key_answers_the_same_job(root: Client, ada: Client) -> None:
    api = Api(User.objects.get(username="ada"))
    root.post(PAGE, BUDGET)
    first = api.post("jobs", body(), **{"Idempotency-Key": "k"})
    assert first.status_code == 201
    hold(12)
    refused = problem(api.post("jobs", body()), 400)
    (error,) = refused["errors"]
    assert (error["field"], error["code"]) == ("team", "BUDGET_USED_UP")
    assert "the budget of vision is used up: 12 of 10 GPU-hours of this month" in error["reason"]
    again = api.post("jobs", body(), **{"Idempotency-Key": "k"})
    assert again.json()["id"] == first.json()["id"]
    assert Job.objects.count() == 2
    assert "The budget of vision is used up" in text(ada.get("/usage/"))
    root.post(PAGE, {**BUDGET, "gpu_hours": "14"})
    assert "The budget of vision is nearly used up" in text(ada.get("/usage/"))
    assert api.post("jobs", body()).status_code == 201


def test_usage_is_split_and_priced(boss: Client, ada: Client) -> None:
    boss.post(PAGE, PRICE)
    hold(8)
    page = text(ada.get("/usage/"))
    assert '<td class="number">0.00</td><td class="number">8.00</td><td class="number">0.00</td>' in page
    assert "20.00" in page
