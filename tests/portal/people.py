"""The people and the quota tree that the portal's tests are about.

    research ─ vision (ada, bob), speech (eve)
    production ─ ads (P0 allowed)

``root`` of research is its admin; ``oncall`` is on call, ``admin`` an administrator.
"""

from __future__ import annotations

from datetime import UTC, datetime

from portal.accounts.models import Membership, User
from quotas import services
from quotas.models import QuotaNode
from scheduler.core import types

NOW = datetime(2026, 4, 19, tzinfo=UTC)
TREE = types.QuotaTree(
    (
        types.QuotaNode("production", p0=False),
        types.QuotaNode("ads", "production", p0=True),
        types.QuotaNode("research", p0=False, ceiling={"A100": 16}),
        types.QuotaNode("speech", "research", p0=False),
        types.QuotaNode("vision", "research", p0=False),
    )
)
PASSWORD = "correct horse"


def make_tree() -> None:
    services.seed(TREE, NOW)


def make_user(name: str, *teams: str, admin: bool = False, **fields: bool) -> User:
    """A user with e-mail ``<name>@example.com``; ``admin``: of the teams named."""
    user = User.objects.create_user(name, f"{name}@example.com", PASSWORD, **fields)
    for team in teams:
        Membership.objects.create(user=user, team=QuotaNode.objects.get(name=team), is_admin=admin)
    return user
