"""`manage.py join_token`: what an administrator gives the agents of new hosts."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from nodes.protocol import Inventory
from nodes.services import JoinRefused, register

pytestmark = pytest.mark.django_db
TOKEN = "n" * 40


def _made(*words: str) -> str:
    said = StringIO()
    call_command("join_token", *words, stdout=said)
    return said.getvalue().strip()


def _join(name: str, token: str, later: timedelta = timedelta(0)) -> None:
    register(Inventory(name, "az1", "r1", "H100"), TOKEN + name, token, timezone.now() + later)


def test_it_lets_in_as_many_hosts_as_were_asked_for() -> None:
    token = _made("--uses", "2")
    _join("h1", token)
    _join("h2", token)
    with pytest.raises(JoinRefused):
        _join("h3", token)


def test_it_is_good_for_as_long_as_was_asked_for() -> None:
    token = _made("--hours", "2")
    with pytest.raises(JoinRefused):
        _join("h1", token, timedelta(hours=2, seconds=1))
    _join("h1", token, timedelta(hours=1))


@pytest.mark.parametrize("words", [("--uses", "0"), ("--hours", "0"), ("--hours", "-1"), ("--hours", "3000")])
def test_what_makes_no_sense_is_refused(words: tuple[str, str]) -> None:
    with pytest.raises(CommandError, match="at least one use"):
        _made(*words)
