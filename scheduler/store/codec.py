"""Records to bytes and back: JSON by msgspec, checked against the record's own types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class Garbled(ValueError):
    """The bytes are not a record of the wanted type. Says which field and why."""


def _encode_hook(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no place in the store")


def _decode_hook(kind: type, value: Any) -> Any:
    if kind is Fraction:
        return Fraction(value)
    raise NotImplementedError(f"{kind.__name__} has no place in the store")


_encoder = msgspec.json.Encoder(enc_hook=_encode_hook, order=None)
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


class _Kept(bytes):
    """A record that never leaves this process, in the place of its encoding."""

    record: Any


@contextmanager
def records_kept() -> Iterator[None]:
    """Meanwhile records go through a store of this process as they are: for simulations of millions of commits.

    Records are never changed once made, so whoever reads one may hold the very object that was put.
    """
    global _keeps
    before, _keeps = _keeps, True
    try:
        yield
    finally:
        _keeps = before


_keeps = False


def encode(record: Any) -> bytes:
    """The record as JSON."""
    if _keeps:
        kept = _Kept()
        kept.record = record
        return kept
    return _encoder.encode(record)


def decode(kind: type[T], raw: bytes) -> T:
    """The record that ``raw`` holds.

    Raises:
        Garbled: ``raw`` is not JSON, or not a ``kind``.
    """
    if type(raw) is _Kept:
        return raw.record  # type: ignore[no-any-return]
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind, dec_hook=_decode_hook)
    try:
        return decoder.decode(raw)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
        raise Garbled(str(error)) from error
