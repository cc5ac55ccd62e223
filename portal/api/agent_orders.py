"""What each node's agent should be told, kept ready: computed again only when something touched the node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from nodes.protocol import digest, encode_assignments
from scheduler.core.orders import orders
from scheduler.core.snapshot import Snapshot
from scheduler.picture import Picture, Touched


@dataclass(frozen=True, slots=True)
class Orders:
    """A node's assignments as JSON, the hash that names them, and the highest fencing token among them."""

    hash: str
    encoded: bytes
    fence: int


Notify = Callable[[frozenset[str]], None]
"""Called in the picture's thread whenever the book's revision rose, with the nodes whose orders changed, if any."""


class OrderBook:
    """The orders of every node that has asked this process for them, following the picture.

    All of them hold at ``revision`` or later: each change of the picture is worked in before its revision is claimed.
    """

    def __init__(self, picture: Picture, notify: Notify) -> None:
        self._picture = picture
        self._notify = notify
        self._mutex = Lock()
        """Guards the fields below against the picture's thread. Taken before the picture's own lock, never inside."""
        self._orders: dict[str, Orders] = {}
        self.revision = 0
        self.close = picture.listen(self._follow)
        with self._mutex:
            # Nothing is in the book yet, so whatever the picture shows already is worked in.
            self.revision = max(self.revision, picture.revision)

    def of(self, node: str) -> Orders:
        """The orders of the node.

        Raises:
            StoreUnavailable: the live state was never loaded.
        """
        found = self._orders.get(node)
        if found is not None:
            return found
        with self._mutex, self._picture.reading() as snapshot:
            return self._compute(snapshot, node)

    def _follow(self, touched: Touched) -> None:
        if self._picture.revision == 0:
            # It only says that it cannot load yet: nobody was given orders.
            return
        with self._mutex, self._picture.reading() as snapshot:
            affected = self._orders.keys() if touched.everything else touched.nodes & self._orders.keys()
            former = {node: self._orders[node].hash for node in affected}
            changed = frozenset(node for node, known in former.items() if self._compute(snapshot, node).hash != known)
            # The snapshot may be ahead of this message, but then further ones are on their way: claim no more.
            self.revision = touched.revision if touched.everything else max(self.revision, touched.revision)
        self._notify(changed)

    def _compute(self, snapshot: Snapshot, node: str) -> Orders:
        assignments = orders(snapshot, node)
        encoded = encode_assignments(assignments)
        fence = max((assignment.fence for assignment in assignments), default=0)
        computed = self._orders[node] = Orders(digest(encoded), encoded, fence)
        return computed
