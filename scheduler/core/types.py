"""The records that the parts of Gangway hand each other.

Everything that lies in etcd, that an agent reports or is told, and that ``plan()`` reads or answers is one of these
records. They are plain data: no behaviour beyond what is derived from their own fields, no clock, no I/O.

Units: every ``*_ms`` is an integer number of milliseconds; points in time count from the Unix epoch (from 0 in a
scenario without a ``start``). Memory and scratch are GB. Shares are exact ``Fraction``s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any

ANY_GPU_TYPE = "any"


class Phase(StrEnum):
    """Where a job stands. The table of moves between phases is ``scheduler.core.lifecycle``."""

    PENDING = "PENDING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


TERMINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED})
HOLDING = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING})
"""The phases in which a job's attempt holds GPUs and is charged for them."""


class Hint(StrEnum):
    """How tightly a gang wants to sit: ``require_*`` waits for the domain, ``prefer_*`` takes the tightest free now."""

    ANY = "any"
    PREFER_SAME_HOST = "prefer_same_host"
    PREFER_SAME_RACK = "prefer_same_rack"
    REQUIRE_SAME_HOST = "require_same_host"
    REQUIRE_SAME_RACK = "require_same_rack"


class NvLink(StrEnum):
    """Whether a gang's hosts have to have NVLink: not at all, where it can be had, or only such hosts."""

    ANY = "any"
    PREFER = "prefer"
    REQUIRE = "require"


class OnLoss(StrEnum):
    """What becomes of a job whose attempt was taken from it."""

    RESUME = "resume_from_checkpoint"
    RESTART = "restart"
    FAIL = "fail"


class StopCause(StrEnum):
    """Why an attempt was stopped. The planned ones get the handshake and the grace."""

    PREEMPT = "preempt"
    RECLAIM = "reclaim"
    SPOT = "spot"
    DRAIN = "drain"
    REPAIR = "repair"
    CANCEL = "cancel"
    TIME_LIMIT = "time_limit"
    NODE_FAILURE = "node_failure"
    RANK_FAILURE = "rank_failure"
    START_TIMEOUT = "start_timeout"


class Reason(StrEnum):
    """Why a job waits, or why it was refused. A closed list: pages, tests and scenarios compare these codes."""

    NEVER_FITS = "NEVER_FITS"
    QUOTA_CEILING = "QUOTA_CEILING"
    NOT_ENOUGH_FREE_GPUS = "NOT_ENOUGH_FREE_GPUS"
    FRAGMENTED = "FRAGMENTED"
    TOPOLOGY = "TOPOLOGY"
    NOT_ENOUGH_CPU_OR_MEMORY = "NOT_ENOUGH_CPU_OR_MEMORY"
    HELD_FOR_LARGER_JOB = "HELD_FOR_LARGER_JOB"
    BEHIND_IN_QUEUE = "BEHIND_IN_QUEUE"
    WAITING_FOR_PREEMPTION = "WAITING_FOR_PREEMPTION"
    DEPENDENCY = "DEPENDENCY"
    BACKOFF = "BACKOFF"
    MAINTENANCE = "MAINTENANCE"
    RESERVED = "RESERVED"
    SPOT_NOT_ALLOWED = "SPOT_NOT_ALLOWED"
    HELD_BY_USER = "HELD_BY_USER"
    SCHEDULER_DEGRADED = "SCHEDULER_DEGRADED"


class RankState(StrEnum):
    """What an agent observes of one rank."""

    PREPARING = "PREPARING"
    READY = "READY"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


ENDED_RANK = frozenset({RankState.SUCCEEDED, RankState.FAILED, RankState.STOPPED})


class Action(StrEnum):
    """What an agent is told to do with the ranks of one attempt on its node."""

    PREPARE = "prepare"
    RUN = "run"
    CHECKPOINT = "checkpoint"
    STOP = "stop"


class Health(StrEnum):
    """What the leader holds of a node. What a person sees is ``HostState``."""

    READY = "READY"
    SUSPECT = "SUSPECT"
    DOWN = "DOWN"
    QUARANTINED = "QUARANTINED"


class HostState(StrEnum):
    """What a person sees of a node: the first of these that applies. On PROBATION it works like a READY one."""

    DOWN = "DOWN"
    SUSPECT = "SUSPECT"
    QUARANTINED = "QUARANTINED"
    DRAINING = "DRAINING"
    CORDONED = "CORDONED"
    PROBATION = "PROBATION"
    READY = "READY"


WORKING = frozenset({HostState.READY, HostState.PROBATION})
"""The states in which a node takes new work."""


class NoticeKind(StrEnum):
    """What is coming over a host, as its provider or its own kernel says.

    ``TERMINATE``: it goes at a set time, or minutes from now. ``REBALANCE``: it may go soon. ``MAINTENANCE``: it will
    be stopped for work on it. ``REPAIR``: it has to be restarted before its broken GPU works again. ``FREEZE``: it
    will stand still for some seconds.
    """

    TERMINATE = "terminate"
    REBALANCE = "rebalance"
    MAINTENANCE = "maintenance"
    REPAIR = "repair"
    FREEZE = "freeze"


MOVING = frozenset({NoticeKind.REBALANCE, NoticeKind.MAINTENANCE, NoticeKind.REPAIR})
"""The hints for which gangs are moved as soon as there is room elsewhere."""


class Remedy(StrEnum):
    """What a GPU's fault calls for, by NVIDIA's catalogue of Xids."""

    IGNORE = "ignore"
    RESTART_APP = "restart_app"
    RESET_GPU = "reset_gpu"
    REBOOT_HOST = "reboot_host"
    WORKFLOW = "workflow"


# --- wishes: written by the web alone, under intent/ ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckpointSpec:
    """How a job saves its work: every ``every_ms`` of running, each save taking ``takes_ms``.

    ``signal`` is what its ranks are sent to make them save at once.
    """

    every_ms: int
    takes_ms: int
    path: str = ""
    retain_last_n: int = 3
    signal: str = "SIGUSR2"


@dataclass(frozen=True, slots=True)
class Launch:
    """What a rank executes. The core carries it to the agents and never looks inside."""

    image: str = ""
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job as it was accepted. ``scratch_gb`` is wanted on each host of the gang, CPU and memory for each rank.

    ``team`` is the name of a leaf of the quota tree. ``checkpoint`` is None for a job that cannot save its work.
    ``after`` names the jobs that must have succeeded first. ``spot_ok`` None means: wherever its checkpoint fits
    the notice. ``topology_wait_ms`` is how long a gang that prefers one rack takes no wider place (see ``patience``);
    None: as the fleet has it. ``array`` is the id that the elements of an array share, and at most ``throttle`` of them
    hold GPUs at a time (0: any number). ``movable``: repair may move it to make room for others.
    """

    id: str
    team: str
    gpus: int
    gpu_type: str
    priority: int
    max_runtime_ms: int
    submitted_ms: int
    hint: Hint = Hint.PREFER_SAME_RACK
    cpu_per_rank: int = 0
    memory_per_rank_gb: int = 0
    scratch_gb: int = 0
    checkpoint: CheckpointSpec | None = None
    on_preemption: OnLoss = OnLoss.RESUME
    on_node_failure: OnLoss = OnLoss.RESUME
    max_restarts: int = 20
    spot_ok: bool | None = None
    after: tuple[str, ...] = ()
    topology_wait_ms: int | None = None
    nvlink: NvLink = NvLink.ANY
    array: str = ""
    throttle: int = 0
    movable: bool = True
    name: str = ""
    owner: str = ""
    launch: Launch = field(default_factory=Launch)


@dataclass(frozen=True, slots=True)
class Torn:
    """What was found out about a job's newest checkpoints: those at ``manifests`` are of no use.

    ``why`` is told of the one that was looked at.
    ``instead`` is the newest good one, empty for none. It was complete at ``saved_at_ms`` and holds ``work_ms`` of
    useful work.
    """

    manifests: tuple[str, ...]
    instead: str = ""
    work_ms: int = 0
    saved_at_ms: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class JobIntent:
    """``intent/jobs/<job>``: what its people want of a job now. ``version`` rises with each change of the wish.

    ``torn`` is what is known against the checkpoints that were its newest when somebody last looked.
    """

    spec: JobSpec
    version: int = 1
    cancel: bool = False
    hold: bool = False
    torn: Torn | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time: ``start_ms`` inclusive, ``end_ms`` exclusive."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class NodeIntent:
    """``intent/nodes/<node>``: inventory as registered and what on-call wants of the node.

    ``cordon`` and ``drain`` hold the reason given, None where not asked for; a drain cordons too. ``spot`` is the
    provider (``aws``, ``gcp``, ``azure``) or None for a host on demand. Failures up to ``pardon_ms`` are not held
    against the node any more.
    """

    name: str
    az: str
    rack: str
    gpu_type: str
    gpus: int = 8
    cpus: int = 128
    memory_gb: int = 2048
    scratch_gb: int = 8000
    spot: str | None = None
    nvlink: bool = True
    address: str = ""
    version: int = 1
    cordon: str | None = None
    drain: str | None = None
    maintenance: tuple[Window, ...] = ()
    pardon_ms: int = 0


@dataclass(frozen=True, slots=True)
class ReservationIntent:
    """``intent/reservations/<name>``: GPUs that a team shall find free from ``start_ms`` to ``end_ms``."""

    name: str
    team: str
    gpus: int
    gpu_type: str
    start_ms: int
    end_ms: int
    version: int = 1


@dataclass(frozen=True, slots=True)
class AcceptedRepair:
    """Moves that on-call agreed to: ``moved`` are (job, attempt), so that ``job`` finds ``takes`` GPUs of ``nodes``."""

    job: str
    gpu_type: str
    nodes: tuple[str, ...]
    takes: tuple[int, ...]
    moved: tuple[tuple[str, int], ...]
    until_ms: int


@dataclass(frozen=True, slots=True)
class RepairIntent:
    """``intent/repair``: what on-call agreed to lately. Each is done once, if it still can be, or not at all."""

    accepted: tuple[AcceptedRepair, ...] = ()
    version: int = 1


@dataclass(frozen=True, slots=True)
class PolicyIntent:
    """``intent/policy``: settings of ``Policy`` by name that people changed; a fraction is written as text."""

    settings: dict[str, int | bool | str] = field(default_factory=dict)
    version: int = 1


@dataclass(frozen=True, slots=True)
class QuotaNode:
    """One node of the quota tree. ``parent`` is None for a child of the root; a node without children is a team.

    ``floor`` and ``ceiling`` are GPUs by type; a type that ``ceiling`` does not name has none. ``class_caps`` bounds
    the GPUs that the jobs of a priority class hold here (``{0: 64}``).
    """

    name: str
    parent: str | None = None
    share: Fraction = Fraction(1)
    floor: dict[str, int] = field(default_factory=dict)
    ceiling: dict[str, int] = field(default_factory=dict)
    min_runtime_ms: int = 0
    p0: bool = True
    reclaim: str = "share"
    class_caps: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuotaTree:
    """``intent/quota``: the whole tree, parents before their children. ``open``: a team not named exists, share 1."""

    nodes: tuple[QuotaNode, ...] = ()
    version: int = 1
    open: bool = False


# --- reports: written by the web on behalf of an agent ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RankReport:
    """One rank as its agent sees it. ``exit_code`` once it has ended by itself."""

    rank: int
    state: RankState
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class GangReport:
    """The ranks of one attempt on one node.

    ``saved_work_ms`` is the useful work, over all attempts, that the newest complete checkpoint holds, and
    ``saved_at_ms`` when it was complete; ``manifest`` is its address, where it has one, and ``step`` how far the
    training was: a manifest stands for the whole gang, whichever node names it. ``acknowledged`` turns true when the
    checkpoint asked for by a stop is done. ``port`` is the one that the agent of rank 0 keeps free for the rendezvous.
    ``hindrance`` says in the agent's words why the ranks cannot be prepared now; empty where nothing is in the way.
    """

    job: str
    attempt: int
    ranks: tuple[RankReport, ...]
    saved_work_ms: int = 0
    saved_at_ms: int = 0
    acknowledged: bool = False
    manifest: str = ""
    step: int = 0
    port: int = 0
    hindrance: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that is coming over the host. ``id`` names it for as long as it stands; ``gone_at_ms`` is when the host
    stops working, None where nobody says."""

    kind: NoticeKind
    id: str
    gone_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class GpuFault:
    """A fault that the driver told of a GPU (``gpu`` None: of a device that is none of ours). ``at_ms`` differs between
    the faults of a host and rises. ``job`` and ``attempt`` are those whose rank had the GPU then, "" where none had.

    ``own``: the fault is one that programs bring about themselves."""

    xid: int
    remedy: Remedy
    at_ms: int
    gpu: int | None = None
    job: str = ""
    attempt: int = 0
    own: bool = False


@dataclass(frozen=True, slots=True)
class NodeReport:
    """``report/<node>``: what the agent last reported; put only when it changed.

    ``gone_at_ms`` is when the host will be taken away, from a spot notice; None without one. ``sequence`` numbers the
    message of this boot that brought the report: it tells a late message from a new one, and nothing else.
    ``notices`` are all that stand, with those behind ``gone_at_ms``; ``faults`` the newest ones, oldest first.
    """

    boot_id: str
    gangs: tuple[GangReport, ...] = ()
    faulty_gpus: tuple[int, ...] = ()
    gone_at_ms: int | None = None
    sequence: int = 0
    notices: tuple[Notice, ...] = ()
    faults: tuple[GpuFault, ...] = ()

    @property
    def hints(self) -> tuple[Notice, ...]:
        """What is coming and is not yet the end of the host."""
        return tuple(notice for notice in self.notices if notice.kind is not NoticeKind.TERMINATE)


# --- decisions: written by the leader alone ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of an allocation that lies on one node: GPU indices, ascending."""

    node: str
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop under way, or the last one. ``deadline_ms`` is the end of the grace, None where there is none.

    ``saved`` turns true when every node acknowledged the checkpoint, ``over`` when the grace has passed: from either on
    the ranks are told to end.
    """

    cause: StopCause
    asked_ms: int
    deadline_ms: int | None = None
    for_job: str | None = None
    saved: bool = False
    over: bool = False


@dataclass(frozen=True, slots=True)
class JobDecision:
    """``decision/jobs/<job>``: what the leader has decided about a job, the whole gang in one key.

    ``attempt`` is 0 before the first bind. ``allocation`` is in the order of ranks: rank 0 is the first GPU of the
    first slice. ``fence`` is the fencing token under which the attempt was bound. ``saved_work_ms`` is the useful
    work that the newest good checkpoint holds, the one at ``manifest`` where it has an address; ``banked_ms`` what the
    current attempt started from, ``resume_from`` the address of that.
    ``restarts`` counts attempts after the first, ``failures`` those that ended by the user's own fault (they use up
    ``max_restarts``), ``stopped_ms`` the moments of the planned stops of the last day, for the bound on them,
    and ``stopped_for`` in parallel for whose sake they were (empty where that is not on record).
    ``eligible_ms`` is when the job could be tried again after it was kept from it; 0: since it was submitted.
    ``met`` names the jobs out of ``spec.after`` that are known to have succeeded: their records may be gone by now.
    ``master_port`` is the port of the gang's rendezvous on the host of rank 0, 0 until the barrier opens.
    ``failing_until_ms`` is how long it is waited, since a rank failed, for a host to turn out to be the reason.
    ``save_ms`` is when the ranks were last asked to save and go on, 0: not in this attempt. ``failed_on`` are the nodes
    on which its last attempts failed.
    """

    phase: Phase = Phase.PENDING
    attempt: int = 0
    fence: int = 0
    allocation: tuple[Slice, ...] = ()
    gpu_type: str = ""
    bound_ms: int | None = None
    started_ms: int | None = None
    first_started_ms: int | None = None
    ended_ms: int | None = None
    deadline_ms: int | None = None
    not_before_ms: int = 0
    eligible_ms: int = 0
    banked_ms: int = 0
    saved_work_ms: int = 0
    saved_at_ms: int = 0
    restarts: int = 0
    failures: int = 0
    stops: int = 0
    stopped_ms: tuple[int, ...] = ()
    stopped_for: tuple[str, ...] = ()
    lost_ms: int = 0
    stop: Stop | None = None
    reason: Reason | None = None
    avoid: tuple[str, ...] = ()
    met: tuple[str, ...] = ()
    manifest: str = ""
    resume_from: str = ""
    master_port: int = 0
    save_ms: int = 0
    failed_on: tuple[str, ...] = ()
    failing_until_ms: int = 0


@dataclass(frozen=True, slots=True)
class NodeDecision:
    """``decision/nodes/<node>``. ``failures`` are (when, job) of attempts that failed there within the last day.

    ``faulty_gpus`` are those whose fault has been acted on and told to history, ``faults_ms`` the moment of the newest
    fault told. ``flaps`` are the moments at which it was heard again after a silence. ``quarantine`` is the span of the
    one for flapping, in force or last; ``probation_ms`` when the time ends in which less is forgiven, 0 outside of it;
    ``relapses`` how often it was set aside without having passed that time since. ``hinted_ms`` is since when a hint
    stands, 0: none. ``notices`` are the ids of those told to history.
    """

    health: Health = Health.READY
    since_ms: int = 0
    why: str = ""
    boot_id: str = ""
    failures: tuple[tuple[int, str], ...] = ()
    faulty_gpus: tuple[int, ...] = ()
    faults_ms: int = 0
    flaps: tuple[int, ...] = ()
    quarantine: Window | None = None
    probation_ms: int = 0
    relapses: int = 0
    hinted_ms: int = 0
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes held from ``start_ms`` on: for a blocked gang (``job``), or ahead of time for a team until ``end_ms``.

    ``takes`` runs parallel to ``nodes``: how many GPUs of each are held. ``firm``: somebody was stopped so that the job
    finds them free, so nobody else of its class or below gets them meanwhile.
    """

    nodes: tuple[str, ...]
    start_ms: int
    job: str | None = None
    team: str | None = None
    name: str = ""
    gpus: int = 0
    gpu_type: str = ""
    end_ms: int | None = None
    takes: tuple[int, ...] = ()
    firm: bool = False


@dataclass(frozen=True, slots=True)
class Reservations:
    """``decision/reservations``: every hold that is in force or planned."""

    held: tuple[Reservation, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """``decision/usage``: the use of what is over, faded to ``at_ms``: GPUs by team and type, times ``2**32``.

    Who leads next goes on with it; what runs is counted from its bind on anyway.
    """

    at_ms: int = 0
    over: dict[str, dict[str, int]] = field(default_factory=dict)


# --- what plan() answers ----------------------------------------------------------------------------------------


class EventKind(StrEnum):
    """What the journal tells the recorder, and the decision log its reader."""

    BIND = "bind"
    START = "start"
    STOP = "stop"
    CHECKPOINT = "checkpoint"
    TORN = "torn"
    """The newest checkpoint turned out to be of no use: the one before it counts."""
    EXIT = "exit"
    RELEASE = "release"
    END = "end"
    RESERVE = "reserve"
    UNRESERVE = "unreserve"
    REASON = "reason"
    HOST = "host"
    GPU = "gpu"
    NOTICE = "notice"
    """What is coming over a host, and that it is so no more."""
    LEADER = "leader"
    GARBLED = "garbled"
    """A journal entry that could not be read; the recorder keeps its bytes."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, as history will tell it. ``detail`` holds JSON values only."""

    kind: EventKind
    at_ms: int
    job: str | None = None
    node: str | None = None
    attempt: int = 0
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobChange:
    """One job's next decision. ``nodes`` are those whose intent the decision relies on (a bind: all of its nodes)."""

    job: str
    decision: JobDecision
    events: tuple[Event, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeChange:
    node: str
    decision: NodeDecision
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class ReservationsChange:
    reservations: Reservations
    events: tuple[Event, ...] = ()


Change = JobChange | NodeChange | ReservationsChange


@dataclass(frozen=True, slots=True)
class Plan:
    """What ``plan()`` decided, in the order in which it must be committed.

    ``wake_ms`` is the earliest time at which a plan of the same snapshot could decide more (a deadline); None if only
    a change of the snapshot can.
    """

    changes: tuple[Change, ...] = ()
    wake_ms: int | None = None


# --- what an agent is told --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assignment:
    """What should be of one attempt on one node. An attempt that an agent runs and is not assigned must go at once.

    ``ranks`` and ``gpus`` run in parallel. ``deadline_ms`` belongs to the action: by when to be READY, or the end of
    the grace. ``saved_work_ms`` is what a resume starts from, ``resume_from`` the address of that checkpoint; it may
    change until the ranks are released. ``master_addr`` and ``master_port`` are where they meet, told from then on.
    Where ``save_ms`` rises the ranks are asked to save once and go on.
    """

    job: str
    attempt: int
    fence: int
    action: Action
    ranks: tuple[int, ...]
    gpus: tuple[int, ...]
    world_size: int
    node_rank: int
    nodes: tuple[str, ...]
    deadline_ms: int | None
    saved_work_ms: int
    spec: JobSpec
    resume_from: str = ""
    master_addr: str = ""
    master_port: int = 0
    save_ms: int = 0


# --- how the planner is tuned -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of the decision code; the defaults are those that scenario files assume."""

    grace_ms: int = 120_000
    start_timeout_ms: int = 600_000
    heartbeat_timeout_ms: int = 30_000
    kill_timeout_ms: int = 60_000
    min_runtime_ms: int = 0
    backfill: bool = True
    repair: str = "off"
    """``off``; ``propose``: moves are shown to on-call, who may have one done; ``auto``: they are done."""
    repair_every_ms: int = 300_000
    repair_windows: str = ""
    """When ``auto`` may move jobs: weekly windows in UTC (see ``windows``); empty: at any time."""
    repair_moves_per_hour: int = 0
    repair_gpu_hours_per_day: int = 0
    """Most jobs that ``auto`` moves within an hour, and GPU-hours that this may cost within a day; 0: no bound."""
    length_weight: Fraction = Fraction(0)
    length_most_ms: int = 0
    """A job counts as having come later by ``length_weight`` times its limit, at most by ``length_most_ms`` (0: without
    a bound), and earlier by ``size_ms`` for each of its GPUs (see ``waiting.Weights``)."""
    size_ms: int = 0
    reservation_after_ms: int = 0
    quarantine_after: int = 3
    flap_after: int = 5
    """A host that was heard again so often within ``flap_window_ms`` after a silence is set aside, for
    ``flap_quarantine_ms`` the first time and twice as long each further time, at most a day. As long again it is on
    probation: half as many silences or failing jobs, rounded up, set it aside then. 0: silences are not counted."""
    flap_window_ms: int = 3_600_000
    flap_quarantine_ms: int = 1_800_000
    rack_from: int = 4
    """Where so many hosts of a rack, and most of it, fall silent together, that is taken for the network's fault: none
    is given up before ``rack_patience`` times the heartbeat timeout. 0: each host is judged by itself."""
    rack_patience: int = 4
    move_on_hint: bool = True
    """Gangs leave a host that is to be rebalanced, maintained or repaired as soon as there is room elsewhere."""
    half_life_ms: int = 86_400_000
    failure_confirm_ms: int = 0
    """When a rank of a gang of several hosts fails, it is waited so long for another of its hosts to be lost, silent or
    broken: ranks that lose a peer fail before anybody knows why, and that is not their job's fault."""
    backoff_ms: int = 30_000
    """A job whose own failure ended an attempt waits this long, twice as long each further time, at most an hour."""
    gang_reservations: int = 24
    """Most blocked gangs of several hosts, and ``host_reservations`` blocked jobs of one host, with a planned start."""
    host_reservations: int = 8
    gathers: int = 0
    """For so many blocked gangs of a GPU type, the first ones and one a zone, whole nodes that come free are kept."""
    rack_wait_ms: int = 0
    """A gang that prefers one rack and says nothing itself is promised its start in one until it has waited so long."""
    evict_every_ms: int = 0
    """Waiting jobs that found no victims are asked again at most this often; new ones and P0 in every plan."""
    share_patience_ms: int = 0
    """A job takes back what is its team's by share once it has waited so long; what is below its floor at once."""
    stops_per_day: int = 6
    """A job that was stopped so often within a day for the sake of others is left alone for the rest of it."""
    reason_every_ms: int = 0
    """A waiting job's reason is looked at again at most this often; 0: in every plan."""
    preemption: bool = True
    shares: bool = True
    order: str = "gangway"
    """``gangway``, or for comparison ``fifo`` (by age, nothing passes) and ``easy`` (by age, one reservation a
    GPU type: that of the first job that is blocked)."""
