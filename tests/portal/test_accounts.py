"""Who may do what."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from knox.models import AuthToken

from portal.accounts import tokens
from portal.accounts.permissions import Role, roles_of, standing
from tests.portal.people import make_tree, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def tree() -> None:
    make_tree()


def test_a_member_sees_the_team_and_acts_on_their_own_jobs() -> None:
    ada = make_user("ada", "vision")
    person = standing(ada)
    assert person.sees_jobs_of("vision")
    assert person.may_submit_to("vision")
    assert person.may_act_on("vision", ada.pk, "someone@example.com")
    assert person.may_act_on("vision", 0, "ADA@example.com")
    assert not person.may_act_on("vision", ada.pk + 1, "bob@example.com")
    assert not person.operates_nodes
    assert not person.may_edit_quota("vision")


def test_an_outsider_sees_nothing_of_it() -> None:
    person = standing(make_user("eve", "speech"))
    assert not person.sees_jobs_of("vision")
    assert not person.may_submit_to("vision")
    assert not person.may_act_on("vision", person.user_id, person.email)
    assert person.team_names == {"speech"}


def test_a_member_of_an_inner_node_is_none_of_its_teams() -> None:
    person = standing(make_user("guest", "research"))
    assert not person.sees_jobs_of("vision")


def test_an_admin_of_an_inner_node_is_admin_below_it() -> None:
    person = standing(make_user("root", "research", admin=True))
    assert person.team_names == {"research", "speech", "vision"}
    assert person.may_act_on("vision", 0, "ada@example.com")
    assert person.may_edit_quota("speech")
    assert not person.sees_jobs_of("ads")


def test_on_call_sees_all_and_operates_but_belongs_to_no_team() -> None:
    person = standing(make_user("pager", is_oncall=True))
    assert person.team_ids is None
    assert person.sees_jobs_of("vision")
    assert person.may_act_on("vision", 0, "ada@example.com")
    assert person.operates_nodes
    assert not person.may_submit_to("vision")
    assert not person.may_edit_quota("vision")


def test_an_administrator_may_do_everything() -> None:
    person = standing(make_user("boss", is_superuser=True))
    assert person.team_ids is None
    assert person.may_submit_to("ads")
    assert person.may_edit_quota("research")
    assert person.operates_nodes


@pytest.mark.parametrize("user", [AnonymousUser(), None], ids=["not signed in", "deactivated"])
def test_who_is_nobody_may_do_nothing(user: AnonymousUser | None) -> None:
    person = standing(user or make_user("gone", "vision", admin=True, is_active=False, is_superuser=True))
    assert person.team_ids == frozenset()
    assert not person.may_submit_to("vision")
    assert not person.operates_nodes
    assert person.roles == frozenset()


def test_roles_follow_from_standing() -> None:
    assert roles_of(make_user("ada", "vision")) == {Role.RESEARCHER}
    assert roles_of(make_user("root", "research", admin=True)) == {Role.RESEARCHER, Role.TEAM_ADMIN}
    assert roles_of(make_user("pager", is_oncall=True)) == {Role.ONCALL}
    assert roles_of(make_user("boss", is_superuser=True)) == {Role.ADMIN}


def test_standing_takes_few_queries(django_assert_num_queries) -> None:
    ada, root = make_user("ada", "vision", "speech"), make_user("root", "research", admin=True)
    with django_assert_num_queries(1):
        standing(ada)
    with django_assert_num_queries(2):
        standing(root)


def test_a_token_is_found_by_itself_alone(django_assert_num_queries) -> None:
    ada = make_user("ada", "vision")
    made, token = AuthToken.objects.create(ada)
    AuthToken.objects.create(ada)
    with django_assert_num_queries(1):
        found = tokens.find(token)
    assert found == made
    assert found is not None
    assert found.user == ada


@pytest.mark.parametrize("wrong", ["", "f" * 64, "\ud800", "ümläut"])
def test_what_is_no_token_finds_nobody(wrong: str) -> None:
    make_user("ada", "vision")
    assert tokens.find(wrong) is None


def test_expired_tokens_and_those_of_the_deactivated_find_nobody() -> None:
    ada = make_user("ada", "vision")
    _, expired = AuthToken.objects.create(ada, expiry=timedelta(seconds=-1))
    _, valid = AuthToken.objects.create(ada)
    assert tokens.find(expired) is None
    ada.is_active = False
    ada.save()
    assert tokens.find(valid) is None
