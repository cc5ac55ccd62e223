"""The demo's people: made once, with the roles that their file says; a second run changes nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from portal.accounts import tokens
from portal.accounts.models import User
from portal.accounts.permissions import Role, standing
from portal.demo.people import ensure_people, ensure_robots
from portal.demo.tree import EXAMPLE_TEAM, teams, tree
from quotas.services import seed

pytestmark = pytest.mark.django_db
URL = "http://127.0.0.1:8000"


@pytest.fixture(autouse=True)
def quota() -> None:
    seed(tree({"H100": 360}), datetime(2026, 1, 1, tzinfo=UTC))


def people(file: Path) -> dict[str, Any]:
    ensure_people(file, URL)
    return {person["name"]: person for person in json.loads(file.read_text())["users"]}


def test_a_second_run_keeps_passwords_and_tokens(tmp_path: Path) -> None:
    file = tmp_path / "demo.json"
    first = people(file)
    users = User.objects.count()
    assert people(file) == first
    assert User.objects.count() == users
    assert User.objects.get(username="ada").check_password(first["ada"]["password"])


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    people(tmp_path / "demo.json")
    ensure_robots(tmp_path / "workload.json")
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


def test_a_lost_file_is_made_anew_with_secrets_that_work(tmp_path: Path) -> None:
    first = people(tmp_path / "demo.json")
    (tmp_path / "demo.json").unlink()
    second = people(tmp_path / "demo.json")
    assert second["ada"]["token"] != first["ada"]["token"]
    ada = User.objects.get(username="ada")
    assert ada.check_password(second["ada"]["password"])
    assert tokens.find(second["ada"]["token"]).user == ada  # type: ignore[union-attr]


def test_a_revoked_token_is_replaced(tmp_path: Path) -> None:
    first = people(tmp_path / "demo.json")
    tokens.find(first["ada"]["token"]).delete()  # type: ignore[union-attr]
    second = people(tmp_path / "demo.json")
    assert tokens.find(second["ada"]["token"]) is not None
    assert second["otto"] == first["otto"]


def test_everybody_has_the_role_that_the_file_says(tmp_path: Path) -> None:
    for name, person in people(tmp_path / "demo.json").items():
        assert Role(person["role"]) in standing(User.objects.get(username=name)).roles


def test_the_researcher_may_submit_the_example_and_no_more(tmp_path: Path) -> None:
    people(tmp_path / "demo.json")
    ada = standing(User.objects.get(username="ada"))
    assert [team for team in teams() if ada.may_submit_to(team)] == [EXAMPLE_TEAM]
    assert ada.roles == {Role.RESEARCHER}


def test_each_team_has_an_account_that_submits_for_it_and_cannot_sign_in(tmp_path: Path) -> None:
    file = tmp_path / "workload.json"
    ensure_robots(file)
    held = json.loads(file.read_text())
    assert sorted(held) == sorted(teams())
    for team, token in held.items():
        robot = tokens.find(token).user  # type: ignore[union-attr]
        assert [other for other in teams() if standing(robot).may_submit_to(other)] == [team]
        assert not robot.has_usable_password()
    ensure_robots(file)
    assert json.loads(file.read_text()) == held
