"""The verbs of object storage on a real S3 server, and what they make of one that misbehaves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from scheduler import objects as module
from scheduler.objects import Address, NoSuchObject, Objects, ObjectsUnavailable, ObjectTooLarge
from tests.objects import Faults


@pytest.fixture(scope="module")
def storage(proxy: Faults) -> Iterator[Objects]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "ANSWER_S", 0.5)
        found = Objects(proxy.url)
        assert found._s3 is not None
    yield found
    found.close()


@pytest.fixture
def bucket(storage: Objects) -> str:
    name = f"b-{uuid4().hex[:12]}"
    storage.make_bucket(name)
    return name


def test_what_is_put_is_found_listed_and_removed(storage: Objects, bucket: str) -> None:
    storage.make_bucket(bucket)
    for name in ("a/1", "a/2", "b"):
        storage.put(Address(bucket, name), name.encode())
    assert storage.get(Address(bucket, "a/2"), 3) == b"a/2"
    assert storage.facts(Address(bucket, "b")).size == 1
    assert [one.key for one in storage.below(Address(bucket, "a/"))] == ["a/1", "a/2"]
    storage.delete(bucket, ["a/1", "a/2", "never-there"])
    storage.delete(bucket, [])
    assert [one.key for one in storage.below(Address(bucket, ""))] == ["b"]


def test_of_two_that_make_a_bucket_none_fails(storage: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"b-{uuid4().hex[:12]}"
    asks = iter([False])

    def first_unseen(bucket: str) -> bool:
        return next(asks, True)

    with monkeypatch.context() as patched:
        patched.setattr(storage, "_has_bucket", first_unseen)
        patched.setattr(storage._s3, "create_bucket", _complain)
        storage.make_bucket(name)
        asks = iter([False, False])
        with pytest.raises(ObjectsUnavailable):
            storage.make_bucket(name)


def _complain(**_: Any) -> None:
    error = {"Error": {"Code": "BucketAlreadyOwnedByYou", "Message": "yours already"}}
    raise ClientError(error, "CreateBucket")


def test_a_long_listing_comes_whole(storage: Objects, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        storage.put(Address(bucket, f"k{number}"), b"")
    paged = storage._s3.get_paginator("list_objects_v2")
    paginate = paged.paginate
    monkeypatch.setattr(paged, "paginate", lambda **asked: paginate(**asked, PaginationConfig={"PageSize": 3}))
    monkeypatch.setattr(storage._s3, "get_paginator", lambda _: paged)
    assert len(list(storage.below(Address(bucket, "k")))) == 7


def test_what_is_not_there_is_told_apart_from_what_cannot_be_told(storage: Objects, bucket: str) -> None:
    with pytest.raises(NoSuchObject):
        storage.get(Address(bucket, "nothing"), 10)
    with pytest.raises(NoSuchObject):
        storage.facts(Address(bucket, "nothing"))
    with pytest.raises(ObjectsUnavailable, match="NoSuchBucket"):
        storage.get(Address("no-such-bucket-here", "x"), 10)
    storage.put(Address(bucket, "large"), b"x" * 100)
    with pytest.raises(ObjectTooLarge):
        storage.get(Address(bucket, "large"), 99)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 500}, id="answers 500"),
        pytest.param({"status": 503}, id="asks to slow down"),
        pytest.param({"status": 507}, id="is full"),
        pytest.param({"gone": True}, id="hangs up"),
        pytest.param({"delay_s": 1.5}, id="does not answer in time"),
    ],
)
def test_whatever_is_wrong_with_it_is_one_error_in_bounded_time(
    storage: Objects, bucket: str, faults: Faults, fault: dict[str, Any]
) -> None:
    at = Address(bucket, "x")
    storage.put(at, b"x")
    for name, value in fault.items():
        setattr(faults, name, value)
    asks: list[Any] = [
        lambda: storage.get(at, 10),
        lambda: storage.facts(at),
        lambda: storage.put(at, b"y"),
        lambda: list(storage.below(at)),
        lambda: storage.delete(bucket, ["x"]),
        lambda: storage.make_bucket(bucket),
    ]
    for ask in asks:
        begun = time.monotonic()
        with pytest.raises(ObjectsUnavailable) as caught:
            ask()
        assert time.monotonic() - begun < 10
        assert "\n" not in str(caught.value)


def test_nothing_listens_there() -> None:
    away = Objects("http://127.0.0.1:9")
    with pytest.raises(ObjectsUnavailable):
        away.get(Address("b", "k"), 1)
    away.close()
