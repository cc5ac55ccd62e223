"""Maintenance windows: on-call names hosts and a span of time; each host carries its windows in its intent.

As in ``nodes.services``, the caller puts the new intents in the outbox, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from nodes.models import Maintenance, Node
from nodes.services import UnknownNode


class Over(Exception):
    """The window was cancelled, or its end has passed."""


def plan(
    names: Sequence[str], place: str, start: datetime, end: datetime, reason: str, by: str, now: datetime
) -> tuple[Maintenance, list[Node]]:
    """Keep the hosts free from ``start`` to ``end``; answers the window and its nodes, whose versions have risen.

    Raises:
        UnknownNode: one of them is not there.
    """
    with transaction.atomic():
        nodes = _locked(Node.objects.filter(name__in=names, removed_at=None))
        missing = set(names) - {node.name for node in nodes}
        if missing:
            raise UnknownNode(min(missing))
        window = Maintenance.objects.create(place=place, start=start, end=end, reason=reason, by=by, created_at=now)
        window.nodes.set(nodes)
        return window, _rewrite(nodes, now)


def cancel(window_id: int, now: datetime) -> tuple[Maintenance, list[Node]]:
    """End a window, or call it off before it begins.

    Raises:
        Maintenance.DoesNotExist: there is no such window.
        Over: it is over already.
    """
    with transaction.atomic():
        window = Maintenance.objects.select_for_update().get(pk=window_id)
        if not window.open or window.end <= now:
            raise Over(window.pk)
        window.open, window.cancelled_at = False, now
        window.save(update_fields=["open", "cancelled_at"])
        return window, _rewrite(_locked(Node.objects.filter(maintenances=window, removed_at=None)), now)


def close(now: datetime) -> list[Node]:
    """Take windows that are over out of their hosts' intents; answers the nodes that changed."""
    with transaction.atomic():
        over = list(Maintenance.objects.select_for_update().filter(open=True, end__lte=now).order_by("pk"))
        nodes = _locked(Node.objects.filter(maintenances__in=over, removed_at=None))
        Maintenance.objects.filter(pk__in=[window.pk for window in over]).update(open=False)
        return _rewrite(nodes, now)


def _locked(nodes: object) -> list[Node]:
    """In the order of their names, as everybody who locks more than one."""
    names = set(nodes.values_list("pk", flat=True))  # type: ignore[attr-defined]
    return list(Node.objects.select_for_update().filter(pk__in=names).order_by("name"))


def _rewrite(nodes: list[Node], now: datetime) -> list[Node]:
    """Bring the windows of these nodes up to the rows of ``Maintenance``."""
    links = Maintenance.nodes.through.objects.filter(
        node__in=nodes, maintenance__open=True, maintenance__end__gt=now
    ).values_list("node_id", "maintenance__start", "maintenance__end")
    windows: dict[str, list[list[int]]] = {}
    for name, start, end in links:
        windows.setdefault(name, []).append([round(start.timestamp() * 1000), round(end.timestamp() * 1000)])
    changed = [node for node in nodes if node.windows != sorted(windows.get(node.name, []))]
    for node in changed:
        node.windows = sorted(windows.get(node.name, []))
        node.version += 1
    Node.objects.bulk_update(changed, ["windows", "version"], batch_size=500)
    return changed
