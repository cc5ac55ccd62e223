"""Doubles that fail at a chosen step, for tests that kill a process between any two of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from django.db import DatabaseError, connection


class Killed(BaseException):
    """The process died here. Not an ``Exception``: nothing in the code may catch it and go on."""


class Fuse:
    """Counts the steps that pass and blows before or after the ``at``-th (from 0); None: never.

    ``after`` lets the step happen and kills before anybody learns that it did. A process that died takes no more steps,
    whatever caught its death.
    """

    def __init__(self, at: int | None, after: bool = False) -> None:
        self.steps: list[str] = []
        self.blown = False
        self._at = at
        self._after = after

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        if self.blown:
            raise Killed(f"long before {name}")
        blows = len(self.steps) == self._at
        self.steps.append(name)
        self.blown |= blows
        if blows and not self._after:
            raise Killed(f"before {name}")
        yield
        if blows:
            raise Killed(f"after {name}")


def every_cut(after: bool) -> Iterator[Fuse]:
    """A fuse for each step of what the loop's body does, and a last one that does not blow."""
    for at in count():
        fuse = Fuse(at, after)
        yield fuse
        if not fuse.blown:
            assert at > 3, f"only {fuse.steps} were steps"
            return


@contextmanager
def killed(fuse: Fuse) -> Iterator[None]:
    """Ends the block as a process ends: without a word, its database session cut.

    Cleaning up in a session that was cut between two of its own steps may fail in other ways than by ``Killed``.
    """
    try:
        yield
    except (Killed, DatabaseError):
        assert fuse.blown, "something failed that was not to be killed"
    if fuse.blown:
        connection.close()


class FusedStore:
    """A store whose every call is a step of the fuse; of many commits sent together, each one is."""

    def __init__(self, store: Any, fuse: Fuse) -> None:
        self._store = store
        self._fuse = fuse

    def __getattr__(self, verb: str) -> Any:
        call = getattr(self._store, verb)

        def fused(*args: Any, **kwargs: Any) -> Any:
            with self._fuse.step(verb):
                return call(*args, **kwargs)

        return fused

    def commit_many(self, commits: Any) -> list[Any]:
        return [self.commit(*commit) for commit in commits]


@contextmanager
def fused_database(fuse: Fuse) -> Iterator[None]:
    """Every statement to PostgreSQL, commits among them, is a step of the fuse."""

    def statement(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        with fuse.step(sql.split(" ", 1)[0]):
            return execute(sql, params, many, context)

    session: Any = connection
    plain_commit = session._commit

    def commit() -> None:
        with fuse.step("COMMIT"):
            plain_commit()

    session._commit = commit
    try:
        with connection.execute_wrapper(statement):
            yield
    finally:
        del session._commit
