"""The agent API from outside: registration by Django's test client, syncs straight into the ASGI application."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from redis import RedisError

from nodes import services
from nodes.liveness import LEASE_S, Renewals
from nodes.models import Node
from nodes.protocol import NOTHING_KNOWN, SYNC_PATH, SyncAnswer, SyncRequest, decode, encode
from nodes.readings import Readings
from nodes.selectors import Identity
from nodes.sync import OLD_ATTEMPTS, SYNCS, SyncDesk
from nodes.telemetry import GpuReading, Telemetry
from nodes.tokens import token_hash
from portal.api.agent import REGISTRATIONS
from portal.api.agent_app import MAX_BODY, AgentApp, count_old_attempts
from portal.api.agent_identities import DENIED_FOR_S, DENIED_MOST, Identities
from portal.api.agent_waiting import WaitingRoom
from scheduler import picture
from scheduler.core.types import (
    GpuFault,
    JobDecision,
    JobIntent,
    JobSpec,
    NodeIntent,
    NodeReport,
    Notice,
    NoticeKind,
    Phase,
    RankState,
    Remedy,
    Slice,
)
from scheduler.models import Outbox
from scheduler.picture import Picture
from scheduler.store import codec, keys
from scheduler.store.base import Put
from scheduler.store.memory import MemoryStore
from tests.nodes.speech import NODE, Clock, gang, refused, request

TOKEN = "t" * 32
OTHER_TOKEN = "o" * 32
LONG_S = 8.0
"""A wait that no test sits out: what ends it early is what the test is about."""


class Front:
    """A web process in front of agents, on a memory store; leases run by ``clock``, which stands until moved."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(self.clock.ms)
        self.picture = Picture(lambda: self.store, self.clock.ms)
        self.rung = 0
        self.database_away = False
        self.members = {token_hash(TOKEN): Identity(NODE, 8), token_hash(OTHER_TOKEN): Identity("other", 8)}
        self.put(keys.intent_node(NODE), NodeIntent(NODE, "az1", "r1", "H100"))
        renewals = Renewals(self.store, self.clock.s)
        self.readings = Readings(self._cache)
        self.app = AgentApp(
            Identities(self.clock.s, self._look_up, self._everybody),
            SyncDesk(self.store, renewals, self._published, self.clock.s),
            renewals,
            WaitingRoom(self.picture),
            self._changed,
            self.clock.ms,
            self.clock.s,
            self.readings,
        )

    def _cache(self) -> Any:
        raise RedisError("no Redis here")

    def play(self, script: Callable[[Front], Awaitable[None]]) -> None:
        async def play() -> None:
            self.app.start()
            try:
                await script(self)
            finally:
                await self.app.stop()

        self.picture.start()
        assert self.picture.wait_for(self.revision, LONG_S)
        asyncio.run(play())

    async def post(self, body: bytes, token: str = TOKEN, method: str = "POST") -> tuple[int, dict[str, str], Any]:
        return await asgi(self.app, method, body, {"authorization": f"Bearer {token}"} if token else {})

    async def sync(self, said: SyncRequest) -> SyncAnswer:
        status, _, raw = await self.post(encode(said))
        assert status == 200, raw
        return decode(SyncAnswer, raw)

    async def problem(self, body: bytes, token: str = TOKEN) -> tuple[int, str]:
        status, headers, raw = await self.post(body, token)
        assert headers["content-type"] == "application/problem+json"
        told = json.loads(raw)
        assert told["status"] == status
        return status, told["detail"]

    def put(self, key: str, record: Any) -> None:
        self.store.commit([], [Put(key, codec.encode(record))])

    def bind(self, job: str, *nodes: str, phase: Phase = Phase.STARTING) -> None:
        """Write what a leader writes when it binds a gang of one GPU a node."""
        spec = JobSpec(job, "team", len(nodes), "H100", 2, 3_600_000, 0)
        allocation = tuple(Slice(node, (0,)) for node in nodes)
        decision = JobDecision(phase, attempt=1, fence=5, allocation=allocation, gpu_type="H100", bound_ms=0)
        self.put(keys.intent_job(job), JobIntent(spec))
        self.put(keys.decision_job(job), decision)

    @property
    def revision(self) -> int:
        return self.store.read(keys.PREFIX).revision

    def report(self) -> NodeReport | None:
        entry = self.store.get(keys.report(NODE))
        return codec.decode(NodeReport, entry.value) if entry else None

    def _look_up(self, hashed: str) -> Identity | None:
        if self.database_away:
            raise OperationalError("the database was told to be away")
        return self.members.get(hashed)

    def _everybody(self) -> dict[str, Identity]:
        if self.database_away:
            raise OperationalError("the database was told to be away")
        return {hashed: owner for hashed, owner in self.members.items() if owner.node == NODE}

    def _published(self, node: str) -> NodeReport | None:
        with self.picture.reading() as snapshot:
            found = snapshot.nodes.get(node)
            return found.report if found else None

    def _changed(self, report: NodeReport) -> None:
        self.rung += 1
        count_old_attempts(self.picture, report)


async def asgi(
    app: AgentApp, method: str, body: bytes, headers: dict[str, str], chunk: int = 1 << 20
) -> tuple[int, dict[str, str], bytes]:
    """One request, its body in chunks; answers status, headers, body."""
    chunks = [body[start : start + chunk] for start in range(0, len(body), chunk)] or [b""]
    said: list[dict[str, Any]] = []
    messages = iter(
        {"type": "http.request", "body": part, "more_body": number < len(chunks) - 1}
        for number, part in enumerate(chunks)
    )

    async def receive() -> dict[str, Any]:
        return next(messages)

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    raw_headers = [(name.encode(), value.encode()) for name, value in headers.items()]
    await app({"type": "http", "method": method, "path": SYNC_PATH, "headers": raw_headers}, receive, send)
    start, end = said
    return start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, end["body"]


@pytest.fixture
def front(monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    # How long the picture's thread takes to see that it should end.
    monkeypatch.setattr(picture, "WAIT_S", 0.05)
    found = Front()
    yield found
    found.picture.stop()


def _count(outcome: str) -> float:
    return float(SYNCS.labels(outcome)._value.get())


# --- what is refused changes nothing and is counted -------------------------------------------------------------

_GOOD = encode(request(1, gang()))


@pytest.mark.parametrize(
    ("body", "token", "status", "outcome", "says"),
    [
        pytest.param(_GOOD, "", 401, "bad_token", "Bearer", id="no token"),
        pytest.param(_GOOD, "x" * 32, 401, "bad_token", "no node has this token", id="nobody's token"),
        pytest.param(_GOOD, OTHER_TOKEN, 403, "other_node", NODE, id="another node's token"),
        pytest.param(b"", TOKEN, 400, "garbage", "JSON", id="nothing"),
        pytest.param(b"\xff\x00", TOKEN, 400, "garbage", "JSON", id="bytes"),
        pytest.param(b"[" * 50_000, TOKEN, 400, "garbage", "", id="deep"),
        pytest.param(b'{"node": "n"}', TOKEN, 400, "garbage", "sequence", id="a field missing"),
        pytest.param(encode(request(0)), TOKEN, 400, "garbage", "sequence", id="message zero"),
        pytest.param(encode(request(1, gang(ranks=9))), TOKEN, 400, "garbage", "ranks", id="more ranks than GPUs"),
        pytest.param(b" " * (MAX_BODY + 1), TOKEN, 413, "too_large", str(MAX_BODY), id="too large"),
    ],
)
def test_bad_messages(front: Front, body: bytes, token: str, status: int, outcome: str, says: str) -> None:
    counted, before = _count(outcome), front.revision

    async def script(front: Front) -> None:
        found, detail = await front.problem(body, token)
        assert found == status and says in detail

    front.play(script)
    assert _count(outcome) == counted + 1
    assert front.revision == before and front.rung == 0


def test_a_body_without_end_is_not_read_to_its_end(front: Front) -> None:
    async def script(front: Front) -> None:
        headers = {"authorization": f"Bearer {TOKEN}"}
        status, _, _ = await asgi(front.app, "POST", b" " * (4 * MAX_BODY), headers, chunk=MAX_BODY)
        assert status == 413

    front.play(script)


def test_only_post(front: Front) -> None:
    async def script(front: Front) -> None:
        status, headers, _ = await front.post(b"", method="GET")
        assert (status, headers["allow"]) == (405, "POST")

    front.play(script)


@pytest.mark.parametrize(
    ("late", "outcome"),
    [
        pytest.param(request(2, gang("b")), "stale", id="doubled"),
        pytest.param(request(1, gang("a")), "stale", id="out of order"),
        pytest.param(request(9, boot="00000000-00000000"), "old_boot", id="from before the restart"),
    ],
)
def test_a_late_message_changes_nothing_and_is_counted(front: Front, late: SyncRequest, outcome: str) -> None:
    counted = _count(outcome)

    async def script(front: Front) -> None:
        await front.sync(request(1, gang("a")))
        await front.sync(request(2, gang("b")))
        before = front.revision
        assert (await front.problem(encode(late)))[0] == 409
        assert front.revision == before

    front.play(script)
    assert _count(outcome) == counted + 1


def test_what_is_said_of_an_old_attempt_is_counted_and_brings_nothing_about(front: Front) -> None:
    front.bind("a", NODE)
    second = codec.decode(JobDecision, front.store.get(keys.decision_job("a")).value)  # type: ignore[union-attr]
    front.put(keys.decision_job("a"), replace(second, attempt=2))
    counted = OLD_ATTEMPTS._value.get()

    async def script(front: Front) -> None:
        await front.sync(request(1, gang("a", attempt=1)))
        assert OLD_ATTEMPTS._value.get() == counted + 1
        await front.sync(request(2, gang("a", attempt=2)))

    front.play(script)
    assert OLD_ATTEMPTS._value.get() == counted + 1
    with front.picture.reading() as snapshot:
        assert snapshot.jobs["a"].decision == replace(second, attempt=2)


def test_a_message_that_comes_three_days_late_changes_nothing_and_is_counted(front: Front) -> None:
    counted = _count("stale")

    async def script(front: Front) -> None:
        late = request(2, gang("a", state=RankState.PREPARING))
        await front.sync(request(1))
        await front.sync(late)
        await front.sync(request(3, gang("a")))
        front.clock.pass_s(3 * 86_400)
        await _until(lambda: front.store.get(keys.alive(NODE)) is None)
        before = front.revision
        status, _ = await front.problem(encode(late))
        assert (status, front.revision, front.store.get(keys.alive(NODE))) == (409, before, None)

    front.play(script)
    assert _count("stale") == counted + 1


# --- what is taken in -------------------------------------------------------------------------------------------


def test_the_first_sync_is_answered_at_once_and_seen_by_the_scheduler(front: Front) -> None:
    async def script(front: Front) -> None:
        answer = await front.sync(request(1, gang(), wait_s=LONG_S))
        assert answer.assignments == () and answer.hash != NOTHING_KNOWN
        assert answer.lease_ms == LEASE_S * 1000 and answer.renewed_ms == 0

    front.play(script)
    assert front.report() == NodeReport(request(1).report.boot_id, (gang(),), sequence=1)
    assert front.rung == 1


def test_a_sync_that_says_nothing_new_wakes_nobody(front: Front) -> None:
    async def script(front: Front) -> None:
        first = await front.sync(request(1, gang()))
        before = front.revision
        answer = await front.sync(request(2, gang(), known=first.hash, wait_s=0.05))
        assert answer.assignments is None and answer.hash == first.hash
        assert front.revision == before

    front.play(script)
    assert front.rung == 1


def test_an_order_reaches_an_agent_that_waits_at_once(front: Front) -> None:
    async def script(front: Front) -> None:
        first = await front.sync(request(1))
        waiting = asyncio.create_task(front.sync(request(2, known=first.hash, wait_s=LONG_S)))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        bound = time.monotonic()
        front.bind("job-1", NODE)
        answer = await waiting
        assert time.monotonic() - bound < 1
        assert [one.job for one in answer.assignments or ()] == ["job-1"]
        assert answer.fence == 5 and answer.revision > first.revision

    front.play(script)


def test_what_does_not_concern_a_node_does_not_wake_its_agent(front: Front) -> None:
    front.put(keys.intent_node("other"), NodeIntent("other", "az1", "r1", "H100"))

    async def script(front: Front) -> None:
        first = await front.sync(request(1))
        waiting = asyncio.create_task(front.sync(request(2, known=first.hash, wait_s=0.4)))
        await asyncio.sleep(0.05)
        front.bind("elsewhere", "other")
        assert (await waiting).assignments is None

    front.play(script)


def test_a_release_takes_the_order_away(front: Front) -> None:
    front.bind("job-1", NODE)

    async def script(front: Front) -> None:
        first = await front.sync(request(1))
        assert first.assignments
        waiting = asyncio.create_task(front.sync(request(2, known=first.hash, wait_s=LONG_S)))
        await asyncio.sleep(0.05)
        front.put(keys.decision_job("job-1"), JobDecision(Phase.PENDING, attempt=1, fence=5))
        assert (await waiting).assignments == ()

    front.play(script)


def test_a_newer_sync_of_a_node_ends_the_wait_of_the_older(front: Front) -> None:
    async def script(front: Front) -> None:
        first = await front.sync(request(1))
        older = asyncio.create_task(front.sync(request(2, known=first.hash, wait_s=LONG_S)))
        await asyncio.sleep(0.05)
        newer = asyncio.create_task(front.sync(request(3, gang(), known=first.hash, wait_s=LONG_S)))
        answer = await asyncio.wait_for(older, 1)
        assert answer.assignments is None and not newer.done()
        front.bind("job-1", NODE)
        assert (await asyncio.wait_for(newer, 1)).assignments

    front.play(script)


def test_orders_older_than_those_that_the_agent_has_seen_are_never_told(front: Front) -> None:
    async def script(front: Front) -> None:
        ahead = front.revision + 10
        answer = await front.sync(request(1, known="newer", revision=ahead, wait_s=0.1))
        assert (answer.assignments, answer.hash, answer.revision) == (None, "newer", ahead)

    front.play(script)


def test_once_the_picture_has_caught_up_it_tells(front: Front) -> None:
    async def script(front: Front) -> None:
        ahead = front.revision + 4
        waiting = asyncio.create_task(front.sync(request(1, known="newer", revision=ahead, wait_s=LONG_S)))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        front.bind("job-1", NODE)
        front.bind("job-2", NODE)
        answer = await asyncio.wait_for(waiting, 1)
        assert {one.job for one in answer.assignments or ()} >= {"job-1"} and answer.revision >= ahead

    front.play(script)


# --- liveness ---------------------------------------------------------------------------------------------------


def test_syncs_keep_the_node_alive_and_the_answer_says_since_when(front: Front) -> None:
    async def script(front: Front) -> None:
        first = await front.sync(request(1))
        for sequence in range(2, 6):
            front.clock.pass_s(LEASE_S / 2)
            answer = await front.sync(request(sequence, known=first.hash))
            assert answer.renewed_ms == -LEASE_S * 500
            await _until(lambda: front.app._desk.renewed_s(NODE) == front.clock.s())
        assert front.store.get(keys.alive(NODE)) is not None

    front.play(script)


def test_a_node_whose_lease_ended_is_called_back_at_once(front: Front) -> None:
    async def script(front: Front) -> None:
        first = await front.sync(request(1))
        waiting = asyncio.create_task(front.sync(request(2, known=first.hash, wait_s=LONG_S)))
        await asyncio.sleep(0.05)
        front.clock.pass_s(LEASE_S + 1)
        answer = await asyncio.wait_for(waiting, 2)
        assert answer.renewed_ms is None
        assert front.store.get(keys.alive(NODE)) is None
        assert (await front.sync(request(3, known=first.hash))).renewed_ms == 0
        assert front.store.get(keys.alive(NODE)) is not None

    front.play(script)


def test_an_outage_of_the_store_costs_no_node_its_lease_and_no_report(front: Front) -> None:
    async def script(front: Front) -> None:
        first = await front.sync(request(1))
        front.store.fail()
        for sequence in range(2, 8):
            front.clock.pass_s(LEASE_S / 3)
            answer = await front.sync(request(sequence, gang(), known=first.hash, wait_s=0.1))
            await _until(lambda: front.app._renewals.store_is_away)
            assert answer.assignments is None and answer.hash == first.hash
        assert answer.renewed_ms == 0
        front.store.recover()
        await _until(lambda: not front.app._renewals.store_is_away)
        await front.sync(request(9, gang(), known=first.hash))

    front.play(script)
    assert front.report() == NodeReport(request(1).report.boot_id, (gang(),), sequence=9)
    assert front.rung == 2


def test_what_is_new_is_not_written_while_the_store_is_away_and_nobody_waits_for_it(front: Front) -> None:
    counted = _count("store_away")

    async def script(front: Front) -> None:
        await front.sync(request(1))
        front.store.fail()
        await front.sync(request(2, gang()))
        assert front.rung == 1

    front.play(script)
    assert _count("store_away") == counted + 1


def test_before_the_live_state_was_ever_loaded_nobody_is_told_to_run_nothing(front: Front) -> None:
    async def script() -> None:
        front.app.start()
        try:
            for sequence in (1, 2):
                assert (await front.problem(encode(request(sequence))))[0] == 503
        finally:
            await front.app.stop()

    asyncio.run(script())


def test_when_the_server_is_told_to_end_nobody_is_kept_waiting(front: Front) -> None:
    async def script(front: Front) -> None:
        first = await front.sync(request(1))
        waiting = asyncio.create_task(front.sync(request(2, known=first.hash, wait_s=LONG_S)))
        await asyncio.sleep(0.05)
        front.app.dismiss()
        assert (await asyncio.wait_for(waiting, 1)).assignments is None
        assert (await front.problem(encode(request(3, known=first.hash))))[0] == 503

    front.play(script)


def test_a_sync_that_a_store_holds_up_is_answered_when_the_server_ends_it(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, let_go = threading.Event(), threading.Event()

    def settle(said: SyncRequest) -> bool:
        held.set()
        return let_go.wait(LONG_S)

    async def script(front: Front) -> None:
        monkeypatch.setattr(front.app._desk, "settle", settle)
        asked = asyncio.create_task(front.problem(encode(request(1))))
        await asyncio.to_thread(held.wait, LONG_S)
        front.app.dismiss()
        asked.cancel()
        try:
            assert (await asked)[0] == 503
        finally:
            let_go.set()

    front.play(script)


def test_without_the_database_a_known_token_is_good_and_an_unknown_one_waits(front: Front) -> None:
    async def script(front: Front) -> None:
        await front.sync(request(1))
        front.database_away = True
        with pytest.raises(OperationalError):
            await asyncio.to_thread(front.app._identities.refresh)
        await front.sync(request(2))
        assert (await front.problem(encode(request(1, node="other")), OTHER_TOKEN))[0] == 503

    front.play(script)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG_S):
        while not holds():
            await asyncio.sleep(0.02)


# --- tokens -----------------------------------------------------------------------------------------------------


class Register:
    """The nodes' tokens in the database, and what was asked of it."""

    def __init__(self, **nodes: str) -> None:
        self.nodes = {hashed: Identity(node, 8) for hashed, node in nodes.items()}
        self.asked: list[str] = []
        self.clock = Clock()
        self.identities = Identities(self.clock.s, self._look_up, self._everybody)

    def _look_up(self, hashed: str) -> Identity | None:
        self.asked.append(hashed)
        return self.nodes.get(hashed)

    def _everybody(self) -> dict[str, Identity]:
        self.asked.append("everybody")
        return dict(self.nodes)


def test_a_good_token_is_asked_for_once() -> None:
    register = Register(a="n1")
    for _ in range(3):
        assert register.identities.look_up("a") == Identity("n1", 8)
    assert register.identities.recall("a") == (Identity("n1", 8), True)
    assert register.asked == ["a"]


def test_a_false_token_is_asked_for_again_after_a_moment() -> None:
    register = Register()
    assert register.identities.look_up("a") is None
    assert register.identities.recall("a") == (None, True)
    register.nodes["a"] = Identity("n1", 8)
    register.clock.pass_s(DENIED_FOR_S)
    assert register.identities.recall("a") == (None, False)
    assert register.identities.look_up("a") == Identity("n1", 8)


def test_a_refresh_learns_every_token_and_forgets_those_taken_back() -> None:
    register = Register(a="n1", b="n2")
    register.identities.look_up("a")
    del register.nodes["a"]
    register.identities.refresh()
    assert register.identities.recall("b") == (Identity("n2", 8), True)
    assert register.identities.look_up("a") is None


def test_false_tokens_do_not_fill_the_memory() -> None:
    register = Register()
    for number in range(DENIED_MOST + 10):
        register.identities.look_up(str(number))
    assert [register.identities.recall(str(number))[1] for number in (9, 10, DENIED_MOST)] == [False, True, True]


# --- registration -----------------------------------------------------------------------------------------------

_HOST = {"name": NODE, "az": "az1", "rack": "r1", "gpu_type": "H100"}


@pytest.fixture
def join(db: None) -> str:
    services.create_join_token("join", 5, timezone.now() + timedelta(hours=1))
    return "join"


def _register(client: Client, body: Any, token: str | None = TOKEN) -> Any:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return client.post("/api/v1/agent/register", raw, content_type="application/json", headers=headers)


def test_a_host_registers_with_a_token_of_its_own(client: Client, join: str) -> None:
    answer = _register(client, {"node": _HOST, "join_token": join})
    assert answer.status_code == 200
    assert answer.json() == {"node": NODE, "token": TOKEN}
    assert Node.objects.get().token_hash == token_hash(TOKEN)
    (row,) = Outbox.objects.all()
    assert row.key == keys.intent_node(NODE)
    assert codec.decode(NodeIntent, bytes(row.value)) == NodeIntent(NODE, "az1", "r1", "H100")


def test_an_agent_that_never_saw_the_answer_asks_again(client: Client, join: str) -> None:
    for _ in range(3):
        assert _register(client, {"node": _HOST, "join_token": join}).status_code == 200
    assert Node.objects.count() == 1 and Outbox.objects.count() == 1


def test_a_host_without_a_token_is_given_one(client: Client, join: str) -> None:
    answer = _register(client, {"node": _HOST, "join_token": join}, token=None)
    assert len(answer.json()["token"]) >= 32
    assert Node.objects.get().token_hash == token_hash(answer.json()["token"])


@pytest.mark.parametrize(
    ("body", "token", "status", "says"),
    [
        pytest.param({"node": _HOST, "join_token": "wrong"}, TOKEN, 403, "join token", id="a wrong join token"),
        pytest.param({"node": _HOST}, TOKEN, 403, "join token", id="no join token"),
        pytest.param({"node": _HOST, "join_token": "join"}, "short", 401, "32", id="too short a token"),
        pytest.param({"node": _HOST | {"gpus": 0}, "join_token": "join"}, TOKEN, 400, "node.gpus", id="no GPUs"),
        pytest.param({"node": _HOST | {"gpus": "8"}, "join_token": "join"}, TOKEN, 400, "node.gpus", id="in quotes"),
        pytest.param({"node": _HOST | {"x": 1}, "join_token": "join"}, TOKEN, 400, "node.x", id="an unknown field"),
        pytest.param({"join_token": "join"}, TOKEN, 400, "node", id="no inventory"),
        pytest.param(b"\xff", TOKEN, 400, "JSON", id="bytes"),
        pytest.param(
            {"node": _HOST | {"name": "a\0b"}, "join_token": "join"}, TOKEN, 400, "node.name", id="a NUL in the name"
        ),
    ],
)
def test_registrations_that_are_refused(
    client: Client, join: str, body: Any, token: str, status: int, says: str
) -> None:
    counted = refused(REGISTRATIONS)
    answer = _register(client, body, token)
    assert answer.status_code == status and answer["content-type"] == "application/problem+json"
    assert refused(REGISTRATIONS) == counted + 1
    assert says in json.dumps(answer.json())
    assert not Node.objects.exists() and not Outbox.objects.exists()


def test_a_name_that_is_taken_is_a_conflict(client: Client, join: str) -> None:
    _register(client, {"node": _HOST, "join_token": join})
    counted = refused(REGISTRATIONS)
    answer = _register(client, {"node": _HOST, "join_token": join}, OTHER_TOKEN)
    assert answer.status_code == 409 and NODE in answer.json()["detail"]
    assert refused(REGISTRATIONS) == counted + 1


def test_registration_is_by_post(client: Client, join: str) -> None:
    assert client.get("/api/v1/agent/register").status_code == 405


def test_reports_of_the_desk_do_not_keep_the_agents_own_number(front: Front) -> None:
    said = msgspec.structs.replace(request(4), report=replace(request(4).report, sequence=99))

    async def script(front: Front) -> None:
        await front.sync(said)

    front.play(script)
    assert front.report() == NodeReport(said.report.boot_id, sequence=4)


def test_telemetry_goes_its_own_way_and_is_no_report(front: Front) -> None:
    async def script(front: Front) -> None:
        await front.sync(request(1))
        before = front.revision
        await front.sync(msgspec.structs.replace(request(2), telemetry=Telemetry(1, "nvml", (GpuReading(7, 99.0),))))
        assert front.revision == before, "nothing was committed"
        assert list(front.readings._fresh) == [NODE]

    front.play(script)


def test_telemetry_that_no_host_reads_is_refused_by_its_field(front: Front) -> None:
    async def script(front: Front) -> None:
        body = encode(msgspec.structs.replace(request(1), telemetry=Telemetry(1, "nvml", (GpuReading(8),))))
        status, detail = await front.problem(body)
        assert (status, detail.partition(":")[0]) == (400, "telemetry.gpus[0].gpu")
        body = encode(request(1)).replace(b'"wait_s"', b'"telemetry":{"at_ms":"now"},"wait_s"')
        assert (await front.problem(body))[0] == 400

    front.play(script)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        pytest.param(
            {"notices": (Notice(NoticeKind.REBALANCE, ""),)}, "report.notices[0].id", id="a notice of no name"
        ),
        pytest.param(
            {"notices": (Notice(NoticeKind.TERMINATE, "t", -1),)}, "report.notices[0].gone_at_ms", id="before time"
        ),
        pytest.param({"notices": (Notice(NoticeKind.FREEZE, "t"),) * 17}, "report.notices", id="too many notices"),
        pytest.param({"faults": (GpuFault(79, Remedy.IGNORE, 1, 8),)}, "report.faults[0].gpu", id="a GPU too many"),
        pytest.param({"faults": (GpuFault(-1, Remedy.IGNORE, 1),)}, "report.faults[0].xid", id="no Xid"),
        pytest.param(
            {"faults": (GpuFault(79, Remedy.IGNORE, 2), GpuFault(79, Remedy.IGNORE, 2))}, "report.faults", id="no order"
        ),
        pytest.param(
            {"faults": (GpuFault(31, Remedy.RESTART_APP, 1, 0, "../x", 1),)}, "report.faults[0].job", id="no job"
        ),
    ],
)
def test_notices_and_faults_that_cannot_be_are_refused_by_their_field(
    front: Front, fields: dict[str, Any], field: str
) -> None:
    async def script(front: Front) -> None:
        said = request(1)
        body = encode(msgspec.structs.replace(said, report=replace(said.report, **fields)))
        status, detail = await front.problem(body)
        assert (status, detail.partition(":")[0]) == (400, field)

    front.play(script)
