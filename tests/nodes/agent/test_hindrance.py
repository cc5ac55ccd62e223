from __future__ import annotations

import errno
import os

import pytest

from nodes.agent.hindrance import MOST_CHARACTERS, told
from nodes.agent.launcher import CannotPrepare


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
