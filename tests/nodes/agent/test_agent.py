"""The agent against a control plane that is scripted, in a time that the loop itself moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from nodes.agent.agent import BACKOFF_TO_S, REPLACED, WATCH_S, Agent
from nodes.agent.client import NotRegistered, Problem, Rejected, Unreachable
from nodes.agent.observed import Observed
from nodes.agent.simulated import Behaviour, SimulatedExecutor, Stepped
from nodes.agent.state import Membership
from nodes.protocol import Inventory, RegisterAnswer, RegisterRequest, SyncAnswer, SyncRequest
from nodes.telemetry import Telemetry
from scheduler.core.types import Action, GangReport, Notice, NoticeKind, RankReport, RankState
from tests.nodes.speech import FIRST_BOOT, NODE, assignment

LEASE_MS = 30_000


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_s = 1000.0

    def time(self) -> float:
        return self._virtual_s

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._virtual_s = max(self._virtual_s, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


class ControlPlane:
    """Answers in the agent's client's place. ``orders`` is what should be; ``away`` makes it unreachable."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.away = False
        self.member = True
        self.says: Exception | None = None
        self.orders: tuple[Any, ...] = ()
        self.revision = 1
        self.requests: list[tuple[float, SyncRequest]] = []
        self.registrations: list[RegisterRequest] = []
        self._changed = asyncio.Event()

    def order(self, *orders: Any) -> None:
        self.orders, self.revision = orders, self.revision + 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def register(self, request: RegisterRequest, token: str) -> RegisterAnswer:
        self._refuse()
        self.registrations.append(request)
        self.member = True
        return RegisterAnswer(request.node.name, token)

    async def sync(self, request: SyncRequest, token: str, timeout_s: float) -> SyncAnswer:
        self._refuse()
        if not self.member:
            raise NotRegistered("who?")
        self.requests.append((self._loop.time(), request))
        arrived_s, name = self._loop.time(), f"orders-{self.revision}"
        if request.known == name:
            try:
                await asyncio.wait_for(self._changed.wait(), min(request.wait_s, timeout_s))
            except TimeoutError:
                self._refuse()
                return self._answer(name, None, arrived_s)
        return self._answer(f"orders-{self.revision}", self.orders, arrived_s)

    def _answer(self, name: str, orders: tuple[Any, ...] | None, arrived_s: float) -> SyncAnswer:
        return SyncAnswer(name, self.revision, 0, 0, LEASE_MS, 10.0, 0, orders)

    def _refuse(self) -> None:
        if self.says is not None:
            raise self.says
        if self.away:
            raise Unreachable("connection refused")

    def states(self) -> list[tuple[RankState, ...]]:
        """The states of the ranks in each request, without repetition."""
        found: list[tuple[RankState, ...]] = []
        for _, request in self.requests:
            states = tuple(rank.state for gang in request.report.gangs for rank in gang.ranks)
            if not found or found[-1] != states:
                found.append(states)
        return found


class Restless:
    """An executor of one rank whose checkpoint is a newer one each ``every_s``, without anybody's order."""

    def __init__(self, loop: VirtualLoop, every_s: float) -> None:
        self._loop = loop
        self._every_s = every_s
        self._told: tuple[GangReport, ...] = ()

    def step(self, assignments: Any, now_ms: int) -> Stepped:
        count = int((self._loop.time() - 1000) / self._every_s)
        told = (GangReport("job-1", 1, (RankReport(0, RankState.RUNNING),), count + 1),)
        if told != self._told:
            self._told = told
        return Stepped(self._told, None, watch=True)

    def holder(self, gpu: int) -> tuple[str, int] | None:
        return None


class World:
    def __init__(self, behaviour: Behaviour, host: Host | None = None) -> None:
        self.loop = VirtualLoop()
        self.control = ControlPlane(self.loop)
        self.membership = Membership("token")
        self.executor = SimulatedExecutor(lambda _: behaviour)
        self.agent = Agent(
            Inventory(NODE, "az1", "r1", "H100"),
            self.membership,
            FIRST_BOOT,
            "join",
            self.control,  # type: ignore[arg-type]
            self.executor,
            self._ms,
            self._ms,
            Random(1),
            host=host,
        )

    def play(self, script: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the agent beside the script, until the script ends."""

        async def both() -> None:
            serving = asyncio.create_task(self.agent.run())
            playing = asyncio.create_task(script())
            await asyncio.wait([serving, playing], return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                playing.cancel()
                serving.result()
            serving.cancel()
            await asyncio.gather(serving, playing, return_exceptions=True)
            playing.result()

        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(both())

    def _ms(self) -> int:
        return int(self.loop.time() * 1000)


@pytest.fixture
def world() -> World:
    return World(Behaviour(runtime_ms=60_000))


def test_it_registers_once_and_then_syncs(world: World) -> None:
    async def script() -> None:
        await asyncio.sleep(60)

    world.play(script)
    assert [(one.node.name, one.join_token) for one in world.control.registrations] == [(NODE, "join")]
    sequences = [request.sequence for _, request in world.control.requests]
    assert sequences == list(range(1, len(sequences) + 1))
    assert 6 <= len(sequences) <= 8, "an idle agent syncs each ten seconds"


def test_a_member_does_not_register_again_unless_its_inventory_changed(world: World) -> None:
    async def script() -> None:
        await asyncio.sleep(1)

    world.play(script)
    again = World(Behaviour())
    again.membership.registered = world.membership.registered
    again.play(script)
    assert again.control.registrations == [] and again.control.requests


def test_a_token_that_is_no_longer_known_is_registered_anew(world: World) -> None:
    async def script() -> None:
        await asyncio.sleep(5)
        world.control.member = False
        await asyncio.sleep(20)

    world.play(script)
    assert len(world.control.registrations) == 2
    assert world.control.requests[-1][0] > 1010


def test_it_does_what_it_is_told_and_says_so_at_once(world: World) -> None:
    async def script() -> None:
        await asyncio.sleep(5)
        world.control.order(assignment(action=Action.PREPARE))
        await asyncio.sleep(5)
        world.control.order(assignment(action=Action.RUN))
        await asyncio.sleep(61)

    world.play(script)
    two = {state: (state, state) for state in RankState}
    assert world.control.states() == [(), two[RankState.READY], two[RankState.RUNNING], two[RankState.SUCCEEDED]]
    moments = [at for at, request in world.control.requests if request.report.gangs]
    assert moments[0] == pytest.approx(1005, abs=0.1)
    ended_s = next(at for at, one in world.control.requests if "SUCCEEDED" in str(one))
    assert ended_s == pytest.approx(1070, abs=0.1)


def test_an_order_that_was_withdrawn_ends_its_ranks(world: World) -> None:
    async def script() -> None:
        world.control.order(assignment(action=Action.PREPARE))
        await asyncio.sleep(1)
        world.control.order()
        await asyncio.sleep(1)

    world.play(script)
    assert world.control.states()[-1] == ()


def test_out_of_touch_it_stops_its_ranks_before_the_lease_can_have_ended(world: World) -> None:
    async def script() -> None:
        world.control.order(assignment(action=Action.PREPARE))
        await asyncio.sleep(1)
        world.control.order(assignment(action=Action.RUN))
        await asyncio.sleep(1)
        last_heard_s = world.control.requests[-1][0]
        world.control.away = True
        await asyncio.sleep(last_heard_s + LEASE_MS / 1000 - world.loop.time() + 0.01)
        assert world.agent._stepped.gangs == ()
        world.control.away = False
        await asyncio.sleep(BACKOFF_TO_S + 15)

    world.play(script)
    assert world.control.states()[-1] == (), "the attempt that it gave up is not taken up again"
    assert world.control.requests[-1][1].known == f"orders-{world.control.revision}"


def test_while_nobody_answers_time_goes_on_for_the_ranks(world: World) -> None:
    async def script() -> None:
        world.control.order(assignment(action=Action.PREPARE))
        await asyncio.sleep(1)
        world.control.order(assignment(action=Action.RUN))
        await asyncio.sleep(55)
        world.control.away = True
        await asyncio.sleep(8)
        assert "SUCCEEDED" in str(world.agent._stepped.gangs)
        world.control.away = False
        await asyncio.sleep(BACKOFF_TO_S)

    world.play(script)
    assert world.control.states()[-1] == (RankState.SUCCEEDED,) * 2


def test_it_asks_a_control_plane_that_is_away_less_and_less_often(world: World) -> None:
    asked: list[float] = []

    def refuse() -> None:
        asked.append(world.loop.time())
        raise Unreachable("connection refused")

    async def script() -> None:
        await asyncio.sleep(120)

    world.control._refuse = refuse  # type: ignore[method-assign]
    world.play(script)
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    assert max(gaps) <= BACKOFF_TO_S and gaps[0] < 0.3 and gaps[-1] > BACKOFF_TO_S / 2


def test_replaced_by_a_later_boot_it_stops_its_ranks_and_ends(world: World) -> None:
    async def script() -> None:
        world.control.order(assignment(action=Action.PREPARE))
        await asyncio.sleep(1)
        world.control.says = Rejected(409, Problem(REPLACED, "a later boot"))
        world.control.order()
        await asyncio.sleep(60)

    with pytest.raises(Rejected, match="a later boot"):
        world.play(script)
    assert world.executor.step((), 10**9).gangs == ()


def _restless(every_s: float) -> World:
    world = World(Behaviour())
    world.agent._executor = Restless(world.loop, every_s)
    return world


def test_news_of_running_ranks_do_not_wait_for_the_answer_to_the_request_before() -> None:
    world = _restless(3.0)

    async def script() -> None:
        await asyncio.sleep(29)

    world.play(script)
    first: dict[int, float] = {}
    for at, request in world.control.requests:
        first.setdefault(request.report.gangs[0].saved_work_ms, at - 1000)
    assert sorted(first) == list(range(1, 11))
    assert all(at <= 3.0 * (count - 1) + 2 * WATCH_S for count, at in first.items())


@pytest.mark.parametrize("every_s", [0.2, 1.0, 4.0])
def test_however_often_ranks_have_news_the_lease_is_heard_of(every_s: float) -> None:
    world = _restless(every_s)

    async def script() -> None:
        await asyncio.sleep(3 * LEASE_MS / 1000)
        assert world.agent._duty.held_until_ms is not None
        assert world.agent._duty.held_until_ms > world._ms() + LEASE_MS - 6_000

    world.play(script)
    assert len(world.control.requests) <= 2 * 3 * LEASE_MS / 1000 / WATCH_S + 2, "and nobody asks without end"


def test_any_other_rejection_is_tried_again(world: World) -> None:
    world.control.says = Rejected(403, Problem(detail="the join token is used up"))

    async def script() -> None:
        await asyncio.sleep(5)
        assert not world.control.requests
        world.control.says = None
        await asyncio.sleep(BACKOFF_TO_S)

    world.play(script)
    assert world.control.requests


# --- what befalls the host


class Host:
    """A host that says what a test has it say."""

    def __init__(self) -> None:
        self.says = Observed()
        self._changed: Callable[[], object] = lambda: None

    def observed(self) -> Observed:
        return self.says

    def telemetry(self) -> Telemetry:
        return Telemetry(1, "simulated")

    def listen(self, changed: Callable[[], object]) -> None:
        self._changed = changed

    def say(self, observed: Observed) -> None:
        self.says = observed
        self._changed()


NOTICE = Observed(gone_at_ms=99, notices=(Notice(NoticeKind.TERMINATE, "t", 99),))


def test_a_notice_is_told_at_once_and_not_with_the_next_sync() -> None:
    host = Host()
    world = World(Behaviour(), host)
    told: list[float] = []

    async def script() -> None:
        await asyncio.sleep(15)
        told.append(world.loop.time())
        host.say(NOTICE)
        await asyncio.sleep(15)

    world.play(script)
    at_s, request = next((at, one) for at, one in world.control.requests if one.report.notices)
    assert at_s - told[0] < 0.1
    assert (request.report.gone_at_ms, request.telemetry) == (99, Telemetry(1, "simulated"))
    assert len([one for _, one in world.control.requests]) <= 8, "and then it waits as before"


def test_a_host_is_vacated_once_the_notice_was_heard_and_no_rank_is_left() -> None:
    host = Host()
    world = World(Behaviour(), host)
    seen: list[bool] = []

    async def script() -> None:
        await asyncio.sleep(5)
        world.control.order(assignment(action=Action.PREPARE))
        await asyncio.sleep(1)
        world.control.order(assignment(action=Action.RUN))
        await asyncio.sleep(1)
        host.say(NOTICE)
        await asyncio.sleep(1)
        seen.append(world.agent.vacated("t"))
        world.control.order()
        seen.append(world.agent.vacated("t"))
        await asyncio.sleep(1)
        seen.append(world.agent.vacated("t"))
        seen.append(world.agent.vacated("another"))

    world.play(script)
    assert seen == [False, False, True, False]
