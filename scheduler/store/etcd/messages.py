"""Requests to etcd and what its answers and errors mean here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
from aetcd import rpc

from scheduler.store.base import Compare, Entry, LeaseGone, Operation, Put, StoreUnavailable, TooLarge


def range_end(prefix: str) -> bytes:
    """The first key after all that start with ``prefix``, as etcd's ranges want it."""
    raw = prefix.encode().rstrip(b"\xff")
    return raw[:-1] + bytes([raw[-1] + 1]) if raw else b"\0"


def transaction(compares: Sequence[Compare], operations: Sequence[Operation]) -> Any:
    return rpc.TxnRequest(
        compare=[_compare(each) for each in compares], success=[_operation(each) for each in operations]
    )


def entry(pair: Any) -> Entry:
    return Entry(pair.key.decode(), pair.value, pair.create_revision, pair.mod_revision, pair.lease)


def failure(error: grpc.RpcError) -> StoreUnavailable | LeaseGone | TooLarge | ValueError:
    """What a failed call is to the caller of the store."""
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.NOT_FOUND and "lease not found" in details:
        return LeaseGone(details)
    if "too many operations" in details or "too large" in details or "larger than max" in details:
        return TooLarge(details)
    if "duplicate key" in details:
        return ValueError(details)
    return StoreUnavailable(f"etcd: {code.name.lower()}: {details}")


def unanswered(error: grpc.RpcError) -> bool:
    """Whether another try may fare better: the member is away, without a leader, or wants a new sign-in."""
    return error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED) or token_expired(error)


def token_expired(error: grpc.RpcError) -> bool:
    """Whether etcd wants a new sign-in. It refuses such a call before it does anything."""
    return error.code() is grpc.StatusCode.UNAUTHENTICATED


def compacted(error: grpc.RpcError) -> bool:
    return error.code() is grpc.StatusCode.OUT_OF_RANGE and "compacted" in (error.details() or "")


def _compare(compare: Compare) -> Any:
    key = compare.key.encode()
    if compare.mod is not None:
        return rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.MOD, key=key, mod_revision=compare.mod)
    return rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.CREATE, key=key, create_revision=compare.create)


def _operation(operation: Operation) -> Any:
    key = operation.key.encode()
    if isinstance(operation, Put):
        put = rpc.PutRequest(key=key, value=operation.value, lease=operation.lease)
        return rpc.RequestOp(request_put=put)
    return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))
