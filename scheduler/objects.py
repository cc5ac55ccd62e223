"""Object storage as the control plane uses it: a few verbs over the S3 API, each with a short bound on the wait.

Nobody who decides waits for it. Whatever goes wrong there is one of two things: what was asked for is not there, or
nothing can be said now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any, cast

CONNECT_S, ANSWER_S = 2, 5
CONNECTIONS = 16
DELETES = 1000
"""Keys that S3 deletes in one request."""
_MISSING = ("NoSuchKey", "404", "NotFound")


class ObjectsUnavailable(Exception):
    """Object storage does not answer, or not as it should: nothing is known. The message is one line."""


class NoSuchObject(Exception):
    """There is no such object, and storage is sure of it."""


class ObjectTooLarge(Exception):
    """The object is there and larger than anybody here wants to read."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where an object lies."""

    bucket: str
    key: str

    @classmethod
    def of(cls, text: str) -> Address:
        """The address that ``s3://bucket/key`` spells.

        Raises:
            ValueError: it spells none.
        """
        scheme, _, rest = text.partition("://")
        bucket, _, key = rest.partition("/")
        if scheme != "s3" or not bucket:
            raise ValueError(f"{text[:80]!r} is no s3:// address")
        return cls(bucket, key)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a listing tells it."""

    key: str
    size: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of an object without reading it. ``sha256`` is what its writer stored with it, or empty."""

    size: int
    sha256: str


class Objects:
    """The object storage at ``url``. Threads may share it.

    Every verb raises ObjectsUnavailable.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._opening = Lock()
        self._opened: Any = None

    @property
    def _s3(self) -> Any:
        """The client. It takes 40 MB and most of a second, and most processes never need it."""
        with self._opening:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _open(self) -> Any:
        import boto3
        from botocore.client import Config

        config = Config(
            connect_timeout=CONNECT_S,
            read_timeout=ANSWER_S,
            max_pool_connections=CONNECTIONS,
            retries={"total_max_attempts": 1},
            s3={"addressing_style": "path"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        return boto3.session.Session().client("s3", endpoint_url=self._url, config=config)

    def get(self, at: Address, most: int) -> bytes:
        """The object's bytes. Raises NoSuchObject; ObjectTooLarge, it has more than ``most``."""
        found = self._told(lambda: self._s3.get_object(Bucket=at.bucket, Key=at.key))
        with closing(found["Body"]) as body:
            if found["ContentLength"] > most:
                raise ObjectTooLarge(f"{at.key} has {found['ContentLength']} bytes")
            return cast(bytes, self._told(body.read))

    def facts(self, at: Address) -> Facts:
        """What is known of the object. Raises NoSuchObject."""
        found = self._told(lambda: self._s3.head_object(Bucket=at.bucket, Key=at.key))
        return Facts(found["ContentLength"], found["Metadata"].get("sha256", ""))

    def put(self, at: Address, data: bytes) -> None:
        """Write the object."""
        self._told(lambda: self._s3.put_object(Bucket=at.bucket, Key=at.key, Body=data))

    def make_bucket(self, bucket: str) -> None:
        """See to it that there is such a bucket."""
        if self._has_bucket(bucket):
            return
        try:
            self._told(lambda: self._s3.create_bucket(Bucket=bucket))
        except ObjectsUnavailable:
            # Some stores complain where somebody else was quicker.
            if not self._has_bucket(bucket):
                raise

    def _has_bucket(self, bucket: str) -> bool:
        try:
            self._told(lambda: self._s3.head_bucket(Bucket=bucket))
        except NoSuchObject:
            return False
        return True

    def below(self, at: Address) -> Iterator[Listed]:
        """Every object whose key begins so, in the order of the keys."""
        pages = iter(self._s3.get_paginator("list_objects_v2").paginate(Bucket=at.bucket, Prefix=at.key))
        while (page := self._told(lambda: next(pages, None))) is not None:
            for one in page.get("Contents", ()):
                yield Listed(one["Key"], one["Size"], one["LastModified"])

    def delete(self, bucket: str, keys: Sequence[str]) -> None:
        """Remove these objects; those that are gone already are none to complain of."""
        for start in range(0, len(keys), DELETES):
            named = {"Objects": [{"Key": key} for key in keys[start : start + DELETES]], "Quiet": True}
            answer = self._told(partial(self._s3.delete_objects, Bucket=bucket, Delete=named))
            for error in answer.get("Errors", ()):
                raise ObjectsUnavailable(f"{error.get('Key')} is not deleted: {error.get('Message')}")

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    @staticmethod
    def _told(ask: Callable[[], Any]) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return ask()
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in _MISSING:
                raise NoSuchObject(code) from error
            raise ObjectsUnavailable(_line(error)) from error
        except BotoCoreError as error:
            raise ObjectsUnavailable(_line(error)) from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
