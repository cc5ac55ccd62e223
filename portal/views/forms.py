"""Submit forms for one person, with the rights and the fleet of this moment."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpRequest

from nodes import selectors as nodes
from portal import submission
from portal.accounts.models import User
from portal.accounts.permissions import standing_of
from portal.forms.submit import SubmitForm
from quotas import selectors as quotas
from scheduler.core.types import Hint

DEFAULTS = {
    "priority": "P2",
    "gpu_count": "8",
    "topology_hint": Hint.PREFER_SAME_RACK.value,
    "max_runtime_hours": "24",
    "checkpoint_interval_minutes": "30",
    "checkpoint_retain_last_n": "3",
    "max_restarts": "20",
}


class Forms:
    """Makes the forms. ``limits`` is what each of the person's teams may ask for: P0 or not, and GPUs by type."""

    def __init__(self, request: HttpRequest) -> None:
        self.person = cast(User, request.user).email
        self._tree = quotas.tree_in_force()
        self.rights = submission.rights(standing_of(request), self._tree)
        self.types = nodes.largest_zones()

    def make(self, **more: Any) -> SubmitForm:
        return SubmitForm(rights=self.rights, gpu_types=self.types, person=self.person, **more)

    def blank(self, **fields: str) -> SubmitForm:
        own = sorted(name for name, right in self.rights.items() if right.may_submit)
        team = {"team": own[0], "gpu_type": self._usual_type(own[0])} if own else {}
        return self.make(initial=DEFAULTS | {"owner": self.person} | team | fields)

    def _usual_type(self, team: str) -> str:
        """The type of which the team is guaranteed most; where that is none, the one that the fleet has most of."""
        floor = next((node.floor for node in self._tree.nodes if node.name == team), {})
        return max(self.types, key=lambda kind: (floor.get(kind, 0), self.types[kind]), default="")

    @property
    def limits(self) -> dict[str, dict[str, Any]]:
        return {
            name: {"p0": right.p0, "most": {kind: self._most(name, kind) for kind in self.types}}
            for name, right in self.rights.items()
            if right.may_submit
        }

    def _most(self, team: str, kind: str) -> int:
        bounds = [ceiling[kind] for _, ceiling in self.rights[team].ceilings if kind in ceiling]
        return min([self.types[kind], *bounds])
