from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodes.protocol import (
    Inventory,
    ProtocolError,
    RegisterRequest,
    SyncAnswer,
    SyncRequest,
    boot_id,
    decode,
    digest,
    encode,
    encode_answer,
    encode_assignments,
)
from tests.nodes.speech import FIRST_BOOT, NODE, assignment, gang, request


def test_a_request_comes_over_as_it_was_sent() -> None:
    said = request(3, gang(), known="abc", revision=9, wait_s=2.5)
    assert decode(SyncRequest, encode(said)) == said


def test_an_answer_carries_assignments_that_were_encoded_before() -> None:
    told = [assignment("a"), assignment("b")]
    encoded = encode_assignments(told)
    answer = SyncAnswer(digest(encoded), 12, 7, -40, 30_000, 10.0, 1_000)
    heard = decode(SyncAnswer, encode_answer(answer, encoded))
    assert heard.assignments == tuple(told)
    assert decode(SyncAnswer, encode_answer(answer, None)) == answer


def test_an_answer_may_hold_fields_that_an_older_agent_does_not_know() -> None:
    answer = SyncAnswer("h", 12, 7, None, 30_000, 10.0, 1_000)
    newer = msgspec.structs.asdict(answer) | {"invented_later": 1}
    assert decode(SyncAnswer, encode(newer)) == answer


def test_the_hash_of_assignments_does_not_depend_on_the_order_of_a_dictionary() -> None:
    one, other = assignment(), assignment()
    one.spec.launch.env.update({"A": "1", "B": "2"})
    other.spec.launch.env.update({"B": "2", "A": "1"})
    assert digest(encode_assignments([one])) == digest(encode_assignments([other]))


def test_boot_ids_sort_by_age() -> None:
    assert boot_id(9, b"\xff" * 8) < boot_id(10, b"\0" * 8)


_REPORT = {"boot_id": FIRST_BOOT}
_GANG = {"job": "j", "attempt": 1, "ranks": []}


def test_an_older_agent_says_nothing_of_what_hinders_it() -> None:
    body = {"node": NODE, "sequence": 1, "report": _REPORT | {"gangs": [_GANG]}}
    (gang,) = decode(SyncRequest, encode(body)).report.gangs
    assert gang.hindrance == ""


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({"node": NODE, "sequence": 1}, "report", id="a field is missing"),
        pytest.param({"node": NODE, "sequence": "1", "report": _REPORT}, "sequence", id="a number in quotes"),
        pytest.param({"node": NODE, "sequence": True, "report": _REPORT}, "sequence", id="true is no number"),
        pytest.param({"node": NODE, "sequence": 1.5, "report": _REPORT}, "sequence", id="half a message"),
        pytest.param({"node": NODE, "sequence": 1, "report": _REPORT, "x": 1}, "x", id="an unknown field"),
        pytest.param({"node": NODE, "sequence": 1, "report": {}}, "report.boot_id", id="missing further in"),
        pytest.param(
            {"node": NODE, "sequence": 1, "report": _REPORT | {"gangs": [_GANG, _GANG | {"attempt": None}]}},
            "report.gangs[1].attempt",
            id="wrong deep inside",
        ),
        pytest.param(
            {
                "node": NODE,
                "sequence": 1,
                "report": _REPORT | {"gangs": [_GANG | {"ranks": [{"rank": 0, "state": "?"}]}]},
            },
            "report.gangs[0].ranks[0].state",
            id="a state that there is not",
        ),
        pytest.param([], "", id="no object at all"),
    ],
)
def test_an_error_names_the_field(body: Any, field: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(SyncRequest, msgspec.json.encode(body))
    assert caught.value.field == field


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe", b"{", b"[" * 100_000, b'{"node":"\\ud800"}', b"NaN"])
def test_what_is_not_json_is_an_error_of_the_protocol(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(SyncRequest, raw)


def test_inventory_is_strict_too() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(RegisterRequest, b'{"node": {"name": "a", "az": "b", "rack": "c", "gpu_type": "H100", "gpus": "8"}}')
    assert caught.value.field == "node.gpus"
    assert Inventory("a", "b", "c", "H100").gpus == 8
