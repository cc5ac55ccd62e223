"""The administration: for administrators alone, and what can be done there."""

from __future__ import annotations

import re
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.test import Client
from django.urls import reverse
from knox.models import AuthToken

from nodes.models import JoinToken, Node
from nodes.tokens import token_hash
from portal.accounts.models import Membership, User
from quotas.models import QuotaNode
from scheduler import policy_history
from scheduler.models import Outbox, PolicyRevision
from scheduler.store import keys
from tests.portal.pages.conftest import signed_in
from tests.portal.people import make_tree, make_user

LISTS = (
    "accounts_user",
    "accounts_membership",
    "quotas_quotanode",
    "knox_authtoken",
    "nodes_node",
    "nodes_jointoken",
    "scheduler_policyrevision",
)


@pytest.fixture
def admin(db: None) -> Client:
    make_tree()
    return signed_in(make_user("admin", is_superuser=True, is_staff=True))


def said(answer: Any) -> str:
    return str(answer.content.decode())


@pytest.mark.parametrize("name", LISTS)
def test_every_list_and_its_search_are_shown(admin: Client, name: str) -> None:
    Node.objects.create(
        name="h1", az="a", rack="r", gpu_type="H100", gpus=8, cpus=1, memory_gb=1, scratch_gb=1, token_hash="0" * 64
    )
    AuthToken.objects.create(User.objects.get())
    answer = admin.get(reverse(f"admin:{name}_changelist"))
    assert answer.status_code == 200
    assert "0" * 64 not in said(answer)


@pytest.mark.parametrize("flags", [{}, {"is_oncall": True}, {"is_staff": True}])
def test_nobody_else_is_let_in(db: None, flags: dict[str, bool]) -> None:
    client = signed_in(make_user("otto", **flags))
    for name in LISTS:
        answer = client.get(reverse(f"admin:{name}_changelist"), follow=True)
        assert answer.status_code == 403


def test_a_stranger_signs_in_on_the_portals_own_page(db: None) -> None:
    answer = Client().get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0].startswith("/sign-in/?next=/admin/")


def test_only_the_administration_may_run_inline_scripts(admin: Client) -> None:
    assert "unsafe-inline" in admin.get("/admin/")["Content-Security-Policy"]
    assert "unsafe" not in admin.get("/jobs/")["Content-Security-Policy"]


@pytest.mark.parametrize("name", ["quotas_quotanode", "nodes_node", "knox_authtoken"])
def test_what_is_edited_elsewhere_is_not_edited_here(admin: Client, name: str) -> None:
    assert admin.get(reverse(f"admin:{name}_add")).status_code == 403
    team = QuotaNode.objects.get(name="vision")
    answer = admin.post(reverse("admin:quotas_quotanode_change", args=[team.pk]), {"name": "mine"})
    assert answer.status_code == 403


def test_a_person_is_added_to_a_team_and_made_its_admin(admin: Client) -> None:
    ada, team = make_user("ada"), QuotaNode.objects.get(name="vision")
    admin.post(reverse("admin:accounts_membership_add"), {"user": ada.pk, "team": team.pk, "is_admin": "on"})
    assert Membership.objects.filter(user=ada, team=team, is_admin=True).exists()


def test_a_token_is_revoked(admin: Client) -> None:
    row, token = AuthToken.objects.create(make_user("ada"))
    admin.post(reverse("admin:knox_authtoken_delete", args=[row.pk]), {"post": "yes"})
    assert not AuthToken.objects.exists()
    assert Client().get("/api/v1/jobs", headers={"Authorization": f"Bearer {token}"}).status_code == 401


def test_a_join_token_is_shown_once(admin: Client) -> None:
    answer = admin.post(reverse("admin:nodes_jointoken_add"), {"uses": 3, "hours": 2}, follow=True)
    (shown,) = re.findall(r"shown this once: ([\w-]{40,})", said(answer))
    row = JoinToken.objects.get()
    assert (row.token_hash, row.uses_left) == (token_hash(shown), 3)
    assert shown not in said(admin.get(reverse("admin:nodes_jointoken_changelist")))


def policy(admin: Client, **changes: Any) -> dict[str, Any]:
    """The form as it stands, with changes."""
    form = admin.get(reverse("admin:scheduler_policyrevision_add")).context["adminform"].form
    filled = {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}
    return {name: value for name, value in {**filled, **changes}.items() if value is not False and value is not None}


def test_a_change_of_the_policy_is_a_revision_on_its_way_to_the_scheduler(admin: Client) -> None:
    sent = policy(admin, grace_ms=90_000, length_weight="1/3", repair="auto", reason="Shorter grace for the fair")
    assert admin.post(reverse("admin:scheduler_policyrevision_add"), sent).status_code == 302
    made = PolicyRevision.objects.get()
    assert made.chosen == {"grace_ms": 90_000, "length_weight": "1/3", "repair": "auto"}
    assert made.by is not None
    assert (made.by.username, made.reason) == ("admin", "Shorter grace for the fair")
    assert Outbox.objects.get().key == keys.INTENT_POLICY
    assert "grace_ms = 90000" in said(admin.get(reverse("admin:scheduler_policyrevision_changelist")))
    assert admin.get(reverse("admin:scheduler_policyrevision_change", args=[made.pk])).status_code == 200


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"grace_ms": -1}, "should be from 0"),
        ({"length_weight": "half"}, "should be a fraction from 0 to 1"),
        ({"reason": ""}, "This field is required"),
        ({"order": "random"}, "Select a valid choice"),
    ],
)
def test_a_policy_that_is_none_is_refused_beside_its_field(admin: Client, changes: dict[str, Any], told: str) -> None:
    answer = admin.post(reverse("admin:scheduler_policyrevision_add"), {**policy(admin, reason="x"), **changes})
    assert answer.status_code == 200
    assert told in said(answer).replace("&#x27;", "'")
    assert not PolicyRevision.objects.exists()


def test_a_form_that_was_overtaken_is_refused(admin: Client) -> None:
    sent = policy(admin, grace_ms=1, reason="late")
    policy_history.change({"grace_ms": 2}, User.objects.get(), "first", 0, 0)
    assert "Somebody changed the policy" in said(admin.post(reverse("admin:scheduler_policyrevision_add"), sent))
    assert PolicyRevision.objects.count() == 1


def test_a_lost_second_factor_is_taken_off(admin: Client) -> None:
    ada = make_user("ada")
    TOTP.activate(ada, generate_totp_secret())
    chosen = {"action": "drop_second_factor", "_selected_action": [ada.pk]}
    answer = admin.post(reverse("admin:accounts_user_changelist"), chosen, follow=True)
    assert "1 person signs in without it now." in said(answer)
    assert not Authenticator.objects.filter(user=ada).exists()
