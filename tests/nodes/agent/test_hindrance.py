from __future__ import annotations

import errno
import os
from dataclasses import replace

import pytest

from nodes.agent.hindrance import MOST_CHARACTERS, told
from nodes.agent.launcher import CannotPrepare
from scheduler.core.types import RankState
from tests.nodes.agent.host import Host, order


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(CannotPrepare("image:1 cannot be pulled: manifest unknown"), None, id="as it is"),
        pytest.param(
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/state/x"), "No space left on device: /state/x", id="disk"
        ),
        pytest.param(OSError(errno.EIO, os.strerror(errno.EIO)), "Input/output error", id="one of no file"),
        pytest.param(OSError(), "OSError", id="one without words"),
        pytest.param(CannotPrepare("a\n\x1b[31m b\0 \t c"), "a [31m b c", id="one printable line"),
        pytest.param(
            CannotPrepare('Get "https://ada:s3cret@registry.example.com/v2/": EOF'),
            'Get "https://registry.example.com/v2/": EOF',
            id="a login in an address",
        ),
        pytest.param(
            CannotPrepare("401 Authorization: Bearer ey.J0.x sent"), "401 Authorization: … sent", id="a header"
        ),
        pytest.param(CannotPrepare("GET /blob?token=abc&X-Amz-Signature=0f: 403"), None, id="a signed address"),
        pytest.param(CannotPrepare('{"password": "hunter2", "x": 1}'), '{"password": "…", "x": 1}', id="JSON"),
    ],
)
def test_what_is_told_of_an_error(error: Exception, words: str | None) -> None:
    line = told(error)
    assert line.isprintable()
    assert not any(secret in line for secret in ("s3cret", "ey.J0", "abc", "0f", "hunter2"))
    assert words is None or line == words


def test_it_is_never_long() -> None:
    assert len(told(CannotPrepare("x" * 10_000))) == MOST_CHARACTERS


def test_a_directory_that_cannot_be_made_is_told_until_it_can(host: Host) -> None:
    asked = order()
    in_the_way = host.runs / "job-1@1"
    in_the_way.write_text("")
    host.tell(asked)
    assert host.states() == [RankState.PREPARING]
    assert host.report().hindrance == f"File exists: {in_the_way}"
    host.tell(replace(asked, deadline_ms=1))  # cannot even be kept
    assert host.report().hindrance.endswith(str(in_the_way))
    in_the_way.unlink()
    host.gang()._try_again_ms = 0
    host.tell(asked)
    assert (host.states(), host.report().hindrance) == ([RankState.READY], "")
