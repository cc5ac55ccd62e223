"""What a node's agent and the control plane say to each other: JSON over HTTP, the same records on both sides.

``POST /api/v1/agent/register`` once, then ``POST /api/v1/agent/sync`` for ever. A sync is level-triggered: the agent
says all that it observes and which assignments it holds, and is told all that should be, so that a lost, doubled or
late message costs nothing but time. Requests are decoded strictly: a field that is unknown or of another type is an
error that names it. Answers may grow fields that an older agent does not know: the control plane is upgraded first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from nodes.telemetry import Telemetry
from scheduler.core.types import Assignment, NodeReport

REGISTER_PATH = "/api/v1/agent/register"
SYNC_PATH = "/api/v1/agent/sync"
LOGS_PATH = "/api/v1/agent/logs"

NOTHING_KNOWN = ""
"""What an agent that has never been told anything sends as ``known``: it differs from the hash of every answer."""

BOOT_ID = re.compile(r"\d{8}-[0-9a-f]{8,32}")

T = TypeVar("T")


class ProtocolError(ValueError):
    """The body is not the record that belongs here. ``field`` is a path such as ``report.gangs[0].attempt``."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


class Inventory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a host is made of. Memory and scratch in GB; ``spot`` is the provider, None for a host on demand."""

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


class RegisterRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A host joins (``join_token``), or a known one tells of new inventory (its own token as bearer)."""

    node: Inventory
    join_token: str = ""


class RegisterAnswer(msgspec.Struct, frozen=True):
    """``token`` is what the node's agent proves itself with from now on."""

    node: str
    token: str


class SyncRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an agent observes.

    ``boot_id`` is that of ``report`` (see ``boot_id()``) and ``sequence`` rises with every request of a boot.
    ``known`` is the hash of the assignments that the agent holds and ``revision`` that of the picture which they came
    from. The answer may take up to ``wait_s`` seconds if there is nothing else to tell. ``telemetry`` is kept for a
    while and decides nothing.
    """

    node: str
    sequence: int
    report: NodeReport
    known: str = NOTHING_KNOWN
    revision: int = 0
    wait_s: float = 0.0
    telemetry: Telemetry | None = None


class SyncAnswer(msgspec.Struct, frozen=True):
    """What should be on the node.

    ``assignments`` is None where those that the agent holds still stand, and ``hash`` names them in the next request.
    They are the wish of the leader as of ``revision``, and ``fence`` is the highest fencing token among them.
    ``renewed_ms`` says when the node's lease was last renewed for certain, in milliseconds after this request
    arrived (negative: before it); None if it was not. The agent counts its time out of touch from there. The lease
    lasts ``lease_ms``; the next request should wait for ``wait_s``. ``time_ms`` is the control plane's clock.
    An answer does not promise that the report was written: while the state store is away it was not.
    """

    hash: str
    revision: int
    fence: int
    renewed_ms: int | None
    lease_ms: int
    wait_s: float
    time_ms: int
    assignments: tuple[Assignment, ...] | None = None


class LogPiece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stretch of what one rank has written (stdout and stderr together), from byte ``start`` on; base64 in JSON.

    Without ``data`` it only asks where to go on. ``over``: the rank has ended and this is the last there is.
    """

    job: str
    attempt: int
    rank: int
    start: int
    data: bytes = b""
    over: bool = False


class LogsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the ranks of a node have written. The same piece sent again changes nothing."""

    node: str
    pieces: tuple[LogPiece, ...]


class LogState(StrEnum):
    """What became of a piece: taken, not to be taken yet (send it again), or nothing of this rank is ever wanted."""

    TAKEN = "taken"
    LATER = "later"
    REFUSED = "refused"


class LogTaken(msgspec.Struct, frozen=True):
    """What became of a piece. What lies before ``kept`` is kept or was given up; the next piece starts at ``next``.

    ``next`` is before ``kept`` where short pieces shall come again as one, with what is new behind them. ``why`` says
    why a piece was not taken.
    """

    job: str
    attempt: int
    rank: int
    next: int
    kept: int
    state: LogState = LogState.TAKEN
    why: str = ""


class LogsAnswer(msgspec.Struct, frozen=True):
    """In the order of the pieces. What is new should be sent every ``every_s`` seconds."""

    taken: tuple[LogTaken, ...]
    every_s: float


def boot_id(generation: int, randomness: bytes) -> str:
    """The name of one life of an agent. ``generation`` rises with each start, so that boot ids sort by age."""
    return f"{generation:08d}-{randomness.hex()}"


def digest(encoded: bytes) -> str:
    """Names a record by its encoding, as text: a node's assignments in ``hash`` and ``known``."""
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def encode(record: Any) -> bytes:
    return _encoder.encode(record)


def encode_assignments(assignments: Sequence[Assignment]) -> bytes:
    """The JSON that a ``SyncAnswer`` carries as its ``assignments``; equal assignments give equal bytes."""
    return _sorted_encoder.encode(assignments)


def encode_answer(answer: SyncAnswer, assignments: bytes | None) -> bytes:
    """``answer`` with these assignments, encoded already, in place of its own."""
    fields = msgspec.structs.asdict(answer)
    fields["assignments"] = None if assignments is None else msgspec.Raw(assignments)
    return _encoder.encode(fields)


def decode(kind: type[T], raw: bytes) -> T:
    """The record that ``raw`` holds.

    Raises:
        ProtocolError: ``raw`` is not JSON, or not a ``kind``; names the field.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(raw)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise _named(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("", f"not valid JSON: {error}") from error


def _named(message: str) -> ProtocolError:
    """msgspec's message taken apart: ``Expected `int`, got `str` - at `$.sequence```."""
    reason, _, path = message.partition(" - at `$")
    steps = [path.rstrip("`").lstrip(".")] if path else []
    missing_or_unknown = _FIELD.search(reason)
    if missing_or_unknown:
        steps.append(missing_or_unknown[1])
    return ProtocolError(".".join(steps), reason)


_FIELD = re.compile(r"(?:required|unknown) field `([^`]*)`")
_encoder = msgspec.json.Encoder()
_sorted_encoder = msgspec.json.Encoder(order="deterministic")
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
