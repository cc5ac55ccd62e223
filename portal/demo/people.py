"""The demo's people and their secrets. Made once; a second run finds them and changes nothing."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knox.models import AuthToken

from portal.accounts import tokens
from portal.accounts.models import Membership, User
from portal.accounts.permissions import Role
from portal.demo.tree import EXAMPLE_TEAM, teams
from portal.supervisor.secrets import write
from quotas.models import QuotaNode


@dataclass(frozen=True, slots=True)
class Person:
    """``team`` is where they belong to; a team admin is one of everything below it."""

    name: str
    role: Role
    first_name: str
    team: str | None = None


PEOPLE = (
    Person("ada", Role.RESEARCHER, "Ada", EXAMPLE_TEAM),
    Person("grace", Role.TEAM_ADMIN, "Grace", "research"),
    Person("otto", Role.ONCALL, "Otto"),
    Person("admin", Role.ADMIN, "Administrator"),
)

ROBOTS = tuple(Person(f"{team}-ci", Role.RESEARCHER, team, team) for team in teams())
"""One account a team, by whose token the workload submits. They cannot sign in on the pages."""


def ensure_people(file: Path, url: str) -> None:
    """Everybody in ``PEOPLE``, with their passwords and tokens in ``file`` (mode 0600)."""
    known = _known(file)
    users = [_ensure(person, known.get(person.name)) for person in PEOPLE]
    write(file, json.dumps({"url": url, "team": EXAMPLE_TEAM, "users": users}, indent=2) + "\n")


def ensure_robots(file: Path) -> None:
    """An account for each team, with its token in ``file`` (mode 0600): ``{team: token}``."""
    known = json.loads(file.read_text()) if file.exists() else {}
    held = {}
    for robot in ROBOTS:
        team = str(robot.team)
        user, _ = _user(robot)
        held[team] = _token(user, known.get(team))
    write(file, json.dumps(held, indent=2) + "\n")


def _known(file: Path) -> dict[str, dict[str, str]]:
    if not file.exists():
        return {}
    return {person["name"]: person for person in json.loads(file.read_text())["users"]}


def _ensure(person: Person, known: dict[str, str] | None) -> dict[str, Any]:
    """A password that its owner has changed since stays; a new one is set only where the file holds none."""
    user, made = _user(person)
    password = known["password"] if known and not made else secrets.token_urlsafe(9)
    if made or known is None:
        user.set_password(password)
        user.save(update_fields=["password"])
    token = _token(user, known["token"] if known else None)
    return {"name": person.name, "role": person.role.value, "password": password, "token": token}


def _user(person: Person) -> tuple[User, bool]:
    user, made = User.objects.get_or_create(
        username=person.name,
        defaults={
            "email": f"{person.name}@example.com",
            "first_name": person.first_name,
            "is_oncall": person.role is Role.ONCALL,
            "is_staff": person.role is Role.ADMIN,
            "is_superuser": person.role is Role.ADMIN,
        },
    )
    if made:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    if made and person.team is not None:
        team = QuotaNode.objects.get(name=person.team)
        Membership.objects.get_or_create(user=user, team=team, defaults={"is_admin": person.role is Role.TEAM_ADMIN})
    return user, made


def _token(user: User, known: str | None) -> str:
    """The token that the file holds, if it is still that person's; else a new one."""
    if known is not None:
        found = tokens.find(known)
        if found is not None and found.user_id == user.pk:
            return known
    _, token = AuthToken.objects.create(user=user)
    return str(token)
