"""Bodies have one meaning or are refused."""

from __future__ import annotations

import io
from typing import Any

import pytest

from portal.api.parsers import MOST_BYTES, StrictJSONParser, decode
from portal.api.problems import Problem


@pytest.mark.parametrize(
    ("raw", "field", "reason"),
    [
        pytest.param(b"", "", "is not JSON", id="nothing"),
        pytest.param(b"{", "", "line 1, column 2", id="cut off"),
        pytest.param(b"{} {}", "", "is not JSON", id="two values"),
        pytest.param(b'{"a": 1, "a": 2}', "", "'a' twice", id="a name twice"),
        pytest.param(b'{"b": [{"a": 1, "a": 1}]}', "", "'a' twice", id="a name twice further in"),
        pytest.param(b'{"a": NaN}', "", "NaN", id="NaN"),
        pytest.param(b'{"a": -Infinity}', "", "-Infinity", id="minus infinity"),
        pytest.param(b'{"a": 1e999}', "", "too large", id="a float beyond floats"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", "", "5000 digits", id="an integer of 5,000 digits"),
        pytest.param(b'{"a": "\xff"}', "", "UTF-8", id="invalid UTF-8"),
        pytest.param(b'{"a": "\\u0000"}', "a", "NUL", id="an escaped NUL"),
        pytest.param(b'{"a": ["x", "\\ud800"]}', "a[1]", "U+D800", id="a lone surrogate"),
        pytest.param(b'{"a": {"\\udfff": 1}}', "a", "U+DFFF", id="a lone surrogate as a name"),
        pytest.param(b"\xef\xbb\xbf{}", "", "is not JSON", id="a byte order mark"),
        pytest.param(b"[" * 21 + b"]" * 21, "", "nested deeper", id="nested too deeply"),
        pytest.param(b"[" * 100_000, "", "nested deeper", id="nested beyond the interpreter"),
        pytest.param(b'{"a":' * 100_000, "", "nested deeper", id="objects beyond the interpreter"),
    ],
)
def test_what_is_not_strict_json_is_refused(raw: bytes, field: str, reason: str) -> None:
    with pytest.raises(Problem) as refused:
        decode(raw)
    (error,) = refused.value.errors
    assert (refused.value.status, error.field) == (400, field)
    assert reason in error.reason
    (error.field + error.reason + error.remedy + refused.value.detail).encode()


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        pytest.param(b'{"a": 1.5}', {"a": 1.5}, id="an object"),
        pytest.param(b'"\\ud83d\\ude00"', "😀", id="both halves of a character"),
        pytest.param('{"é": "日本"}'.encode(), {"é": "日本"}, id="plain Unicode"),
        pytest.param(b"[" * 20 + b"]" * 20, None, id="as deep as is taken"),
    ],
)
def test_strict_json_is_taken(raw: bytes, value: Any) -> None:
    decoded = decode(raw)
    assert value is None or decoded == value


class Endless(io.RawIOBase):
    """A body without an end; counts what is read of it."""

    taken = 0

    def read(self, size: int = -1) -> bytes:
        assert size > 0, "an endless body must not be read whole"
        self.taken += size
        return b" " * size


def test_a_body_too_large_is_refused_without_reading_it_whole() -> None:
    endless = Endless()
    with pytest.raises(Problem) as refused:
        StrictJSONParser().parse(endless)  # type: ignore[arg-type]
    assert refused.value.status == 413
    assert endless.taken == MOST_BYTES + 1
