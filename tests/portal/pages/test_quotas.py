"""The pages of the quota tree: who sees and edits what, drafts, previews, times, history, one's own share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from quotas import selectors, services
from quotas.diff import value_of
from quotas.models import QuotaRevision, ScheduledEdit
from scheduler import clock
from scheduler.core.types import QuotaTree
from scheduler.models import Job
from scheduler.store import keys
from scheduler.store.memory import MemoryStore
from tests.portal.pages.conftest import signed_in
from tests.portal.people import TREE, make_user
from tests.scheduler.builders import charge_spans

pytestmark = pytest.mark.usefixtures("fleet", "live")


@pytest.fixture
def live(store: MemoryStore, show: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.connections.store", lambda: store)
    monkeypatch.setattr("scheduler.wakeups.tick.ring", lambda: True)
    show({keys.INTENT_QUOTA: QuotaTree(TREE.nodes, version=1)})


@pytest.fixture
def root(tree: None) -> Client:
    """An admin of research."""
    return signed_in(make_user("root", "research", admin=True))


def text(response: Any) -> str:
    assert response.status_code == 200, response.content[:2000]
    return " ".join(response.content.decode().split())


def form(version: int = 1, **typed: str) -> dict[str, Any]:
    """A draft of vision's fields; ``ceiling_H100`` stands for ``vision/ceiling.H100``."""
    fields = {"share": "1", "reclaim": "share", "min_runtime_s": "0"} | {
        name.replace("_H100", ".H100"): value for name, value in typed.items()
    }
    return {
        "based_on": str(version),
        "node": ["speech", "vision"],
        **{f"vision/{name}": value for name, value in fields.items()},
    }


def test_everybody_sees_the_tree_with_its_numbers(ada: Client, make_job: Callable[..., Job]) -> None:
    make_job(on={"h1": tuple(range(8))})
    page = text(ada.get("/quotas/"))
    assert "vision holds 8 H100 GPUs, its own 12, 8 above its floor, no ceiling" in page
    assert page.index("research") < page.index(">vision</a>")
    assert "Edit quotas" not in page
    assert "A100" in text(ada.get("/quotas/?type=A100"))


def test_the_number_of_queries_does_not_grow_with_the_tree(ada: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            ada.get("/quotas/")
        return len(seen)

    before = queries()
    from scheduler.core.types import QuotaNode

    services.apply(
        QuotaTree((*TREE.nodes, *(QuotaNode(f"t{n}") for n in range(40)))), at=clock.to_datetime(clock.now_ms())
    )
    assert queries() == before


def test_only_who_may_edit_gets_the_form(ada: Client, oncall: Client, root: Client) -> None:
    assert ada.get("/quotas/edit/").status_code == 403
    assert oncall.get("/quotas/edit/").status_code == 403
    assert ada.post("/quotas/preview/", form()).status_code == 403
    page = text(root.get("/quotas/edit/"))
    assert 'name="vision/ceiling.H100"' in page
    assert 'name="research/share"' not in page
    assert 'name="ads/share"' not in page


def test_a_preview_changes_nothing_and_says_what_would(root: Client, make_job: Callable[..., Job]) -> None:
    make_job(on={"h1": tuple(range(8))})
    page = text(root.post("/quotas/edit/", form(ceiling_H100="4", action="preview") | {"action": "preview"}))
    assert "vision would be over its ceiling:" in page
    assert "was none" in page
    part = text(root.post("/quotas/preview/", form(ceiling_H100="4")))
    assert "vision would be over its ceiling:" in part
    assert "<html" not in part
    assert selectors.version() == 1


def test_applying_needs_a_reason_and_is_kept_with_it(root: Client) -> None:
    page = text(root.post("/quotas/edit/", form(ceiling_H100="16") | {"action": "apply"}))
    assert "Say why" in page
    assert 'value="16"' in page
    assert selectors.version() == 1
    done = root.post("/quotas/edit/", form(ceiling_H100="16") | {"action": "apply", "reason": "a paper"})
    assert done.status_code == 302
    assert value_of(selectors.tree(), "vision", "ceiling.H100") == 16
    history = text(root.get("/quotas/history/"))
    assert "root: a paper" in history
    assert "ceiling, H100" in history


def test_an_override_is_listed_and_ends_when_told(root: Client, ada: Client) -> None:
    typed = form(share="3") | {"action": "apply", "reason": "a deadline", "ends_at": "2099-01-01T10:00"}
    assert root.post("/quotas/edit/", typed).status_code == 302
    edit = ScheduledEdit.objects.get()
    page = text(root.get("/quotas/"))
    assert "In force until" in page
    assert "End now" in page
    assert "End now" not in text(ada.get("/quotas/"))
    assert ada.post(f"/quotas/edits/{edit.pk}/cancel/").status_code == 403
    assert root.post(f"/quotas/edits/{edit.pk}/cancel/").status_code == 302
    assert value_of(selectors.tree(), "vision", "share") == "1"
    assert root.post("/quotas/edits/99999/cancel/").status_code == 404


def test_times_are_the_readers(root: Client) -> None:
    root.cookies["zone"] = "Asia/Tokyo"
    typed = form(share="3") | {"action": "apply", "reason": "later", "starts_at": "2099-01-01T09:00"}
    assert root.post("/quotas/edit/", typed).status_code == 302
    assert ScheduledEdit.objects.get().starts_at.isoformat() == "2099-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        pytest.param({"share": "lots"}, "must be a number such as 40", id="a share that is no number"),
        pytest.param({"ceiling_H100": "-3"}, "must be a whole number", id="a negative ceiling"),
        pytest.param({"floor_H100": "8", "ceiling_H100": "4"}, "8 is above the ceiling, 4", id="floor above ceiling"),
        pytest.param({"floor_H100": "8"}, "may come to 0", id="a floor that research does not have"),
    ],
)
def test_what_is_wrong_is_said_and_kept_as_typed(root: Client, typed: dict[str, str], words: str) -> None:
    page = text(root.post("/quotas/edit/", form(1, **typed) | {"action": "apply", "reason": "x"}))
    assert words in page
    assert all(f'value="{value}"' in page for value in typed.values())
    assert selectors.version() == 1


def test_a_draft_on_an_older_tree_is_carried_over_and_not_applied_blindly(root: Client) -> None:
    assert root.post("/quotas/edit/", form(ceiling_H100="16") | {"action": "apply", "reason": "a"}).status_code == 302
    typed = form(share="5") | {"action": "apply", "reason": "b"}
    page = text(root.post("/quotas/edit/", typed))
    assert "The tree was edited while you drafted." in page
    assert value_of(selectors.tree(), "vision", "share") == "1"
    again = form(2, share="5", ceiling_H100="16") | {"action": "apply", "reason": "b"}
    assert root.post("/quotas/edit/", again).status_code == 302
    assert value_of(selectors.tree(), "vision", "ceiling.H100") == 16
    assert value_of(selectors.tree(), "vision", "share") == "5"


def test_nodes_are_added_below_and_removed(root: Client) -> None:
    new = form() | {"new_name": "music", "new_parent": "research", "action": "preview"}
    page = text(root.post("/quotas/edit/", new))
    assert 'name="music/share"' in page
    typed = form() | {"added": "music", "added_parent": "research", "music/share": "2", "remove": "speech"}
    typed["node"] = ["speech", "vision", "music"]
    assert root.post("/quotas/edit/", typed | {"action": "apply", "reason": "reorg"}).status_code == 302
    assert {node.name for node in selectors.tree().nodes} == {"ads", "music", "production", "research", "vision"}
    stolen = form(2) | {"new_name": "mine", "new_parent": "production", "action": "apply", "reason": "x"}
    assert "may only be changed by" in text(root.post("/quotas/edit/", stolen))


def test_an_administrator_makes_the_first_node(db: None) -> None:
    QuotaRevision.objects.all().delete()
    from quotas.models import QuotaNode

    QuotaNode.objects.filter(parent__isnull=False).delete()
    QuotaNode.objects.all().delete()
    client = signed_in(make_user("boss", is_superuser=True))
    assert "There is no quota tree yet" in text(client.get("/quotas/"))
    typed = {"based_on": "0", "new_name": "all", "new_parent": "", "action": "apply", "reason": "begin"}
    assert client.post("/quotas/edit/", typed).status_code == 302
    assert [node.name for node in selectors.tree().nodes] == ["all"]


def test_my_share_tells_what_is_owed_and_why(ada: Client, make_job: Callable[..., Job]) -> None:
    make_job(on={"h1": tuple(range(8))})
    make_job()
    page = text(ada.get("/quotas/share/"))
    assert "The share of vision" in page
    assert "48 H100 GPUs are in service. By shares, research 50 % of the cluster and vision 50 % of research" in page
    assert "It holds 8 and waits for 8" in page
    assert ada.get("/quotas/share/?team=ads").status_code == 404


def test_who_belongs_nowhere_is_told_what_to_do(tree: None) -> None:
    assert "You belong to no team yet" in text(signed_in(make_user("new")).get("/quotas/share/"))


def test_usage_shows_and_exports_what_was_held(ada: Client, make_job: Callable[..., Job]) -> None:
    assert "Nothing was held in this time" in text(ada.get("/usage/"))
    job = make_job(on={"h1": tuple(range(8))}, attempt=1)
    now = clock.now_ms()
    charge_spans(job, 8, "H100", [(clock.to_datetime(now - 3_600_000), None)])
    page = text(ada.get("/usage/?by=team&step=day"))
    assert "GPU-hours" in page
    assert "<title>vision," in page
    answer = ada.get("/usage/?by=user&format=csv")
    assert answer["Content-Type"].startswith("text/csv")
    assert "ada@example.com" in answer.content.decode()
    assert text(ada.get("/usage/?from=x&to=9999-99-99&by=colour&step=year&team=%00"))


@pytest.mark.parametrize("path", ["", "edit/", "history/", "share/"])
def test_strangers_sign_in_first(path: str) -> None:
    assert Client().get(f"/quotas/{path}").status_code == 302
