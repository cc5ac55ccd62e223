from __future__ import annotations

import os
import stat
from itertools import count
from pathlib import Path

import pytest

from nodes.agent.state import FILE, State, StateUnusable


def _state(path: Path) -> State:
    numbers = count(1)
    return State(path, lambda: f"token-{next(numbers)}")


def test_a_token_is_on_disk_before_anybody_can_send_it(tmp_path: Path) -> None:
    first = _state(tmp_path / "agent")
    first.begin(["a", "b"])
    again = _state(tmp_path / "agent")
    again.begin(["b", "a", "c"])
    assert [again.membership(node).token for node in "ab"] == ["token-1", "token-2"]
    assert (first.generation, again.generation) == (1, 2)


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    _state(tmp_path).begin(["a"])
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_a_membership_changed_in_place_is_kept(tmp_path: Path) -> None:
    state = _state(tmp_path)
    state.begin(["a"])
    state.membership("a").registered = "inventory"
    state.save()
    assert _state(tmp_path).membership("a").registered == "inventory"


def test_a_rest_of_an_interrupted_write_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / FILE).with_suffix(".new").write_text("half a fi")
    _state(tmp_path).begin(["a"])
    assert _state(tmp_path).generation == 1


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(StateUnusable, match=r"agent\.json is not an agent's state"):
        _state(tmp_path)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnusable, match=f"file{os.sep}{FILE}"):
        _state(tmp_path / "file").begin(["a"])
