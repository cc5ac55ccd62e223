"""Who may do what. Pages, the REST interface and the sockets all ask here, and nowhere else is it decided.

* Members of a team submit there and see its jobs; they act on those that they submitted or own.
* An admin of a node of the quota tree is one of every team below it: sees and acts on all of their jobs.
* On-call sees every job, may stop or hold it, and operates the nodes.
* An administrator may do everything.

What somebody may not see is answered as if it were not there; what they see and may not do is refused with a word.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest

from portal.accounts.models import Membership, User
from quotas import selectors as quotas


class Role(StrEnum):
    RESEARCHER = "researcher"
    TEAM_ADMIN = "team_admin"
    ONCALL = "oncall"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Standing:
    """What one person may do, read once. ``member_of`` and ``admin_of`` map names of the quota tree to their ids.

    ``admin_of`` reaches down the tree; ``member_of`` holds what the person was added to, and ``admin_of``.
    """

    user_id: int
    email: str
    oncall: bool
    administrator: bool
    member_of: dict[str, int]
    admin_of: dict[str, int]

    @property
    def roles(self) -> frozenset[Role]:
        held = {
            Role.RESEARCHER: bool(self.member_of),
            Role.TEAM_ADMIN: bool(self.admin_of),
            Role.ONCALL: self.oncall,
            Role.ADMIN: self.administrator,
        }
        return frozenset(role for role, holds in held.items() if holds)

    @property
    def sees_all(self) -> bool:
        return self.oncall or self.administrator

    @property
    def answers_for_others(self) -> bool:
        """Whether other people's jobs are this person's to look after, so that lists begin with them."""
        return self.sees_all or bool(self.admin_of)

    @property
    def team_ids(self) -> Collection[int] | None:
        """The teams whose jobs this person sees, by id, as selectors take them; None: every team's."""
        return None if self.sees_all else frozenset(self.member_of.values())

    @property
    def team_names(self) -> Collection[str] | None:
        """The same by name."""
        return None if self.sees_all else frozenset(self.member_of)

    def sees_jobs_of(self, team: str) -> bool:
        return self.sees_all or team in self.member_of

    def may_submit_to(self, team: str) -> bool:
        return self.administrator or team in self.member_of

    def may_act_on(self, team: str, submitted_by_id: int, owner: str) -> bool:
        """Cancel, hold or release a job of ``team``."""
        if self.sees_all or team in self.admin_of:
            return True
        own = submitted_by_id == self.user_id or owner.casefold() == self.email.casefold()
        return own and team in self.member_of

    @property
    def operates_nodes(self) -> bool:
        """Cordon, uncordon and drain."""
        return self.oncall or self.administrator

    def may_edit_quota(self, node: str) -> bool:
        return self.administrator or node in self.admin_of


def standing(user: User | AnonymousUser) -> Standing:
    """What ``user`` may do now. One query, two for an admin of an inner node; somebody not signed in may nothing."""
    if not isinstance(user, User) or not user.is_active:
        return Standing(0, "", False, False, {}, {})
    memberships = Membership.objects.filter(user=user).values_list("team__name", "team_id", "is_admin")
    member_of = {name: team_id for name, team_id, _ in memberships}
    admin_of = quotas.with_descendants([team_id for _, team_id, is_admin in memberships if is_admin])
    return Standing(user.pk, user.email, user.is_oncall, user.is_superuser, member_of | admin_of, admin_of)


def standing_of(request: HttpRequest) -> Standing:
    """The same for the person behind a request, read once a request."""
    known: Standing | None = getattr(request, "_standing", None)
    if known is None or known.user_id != (request.user.pk or 0):
        known = standing(request.user)
        request._standing = known  # type: ignore[attr-defined]
    return known


def roles_of(user: User | AnonymousUser) -> frozenset[Role]:
    return standing(user).roles
