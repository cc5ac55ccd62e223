"""The sockets: /ws/queue/, /ws/cluster/, /ws/jobs/<id>/. Each passes on what its feed says."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, cast

import structlog
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from redis.exceptions import RedisError

from portal.accounts.models import User
from portal.accounts.permissions import Standing, standing
from portal.live.feed import Feed, Message, Subscription
from portal.live.feeds import cluster_feed, job_feed, queue_feed
from portal.live.queue import redacted
from scheduler import selectors

log = structlog.get_logger(__name__)

NOT_UNDERSTOOD, SIGNED_OUT, NOT_THERE = 4400, 4401, 4404
"""Close codes; the page's socket (static/js/socket.js) knows the last two."""
REVIEW_S = 60.0
"""How often a socket looks whether its person may still see what it shows."""


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Base of the sockets. A subclass names its feed, and what of a message its reader may see."""

    standing: Standing
    feed: Feed
    subscription: Subscription | None = None
    tasks: tuple[asyncio.Task[None], ...] = ()

    def chosen_feed(self) -> Feed:
        raise NotImplementedError

    async def may_watch(self) -> bool:
        return True

    def seen(self, message: Message) -> str:
        return message.text

    async def connect(self) -> None:
        await self.accept()
        refusal = await self._refusal()
        if refusal is not None:
            await self.close(refusal)
            return
        await self.watched()
        self.feed = self.chosen_feed()
        self.subscription = self.feed.subscribe()
        loop = asyncio.get_running_loop()
        self.tasks = (loop.create_task(self._pass_on(self.subscription)), loop.create_task(self._review()))

    async def watched(self) -> None:
        """Called once the reader is let in."""

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            asked = json.loads(text_data or "")
        except (ValueError, RecursionError):
            asked = None
        if asked != {"type": "resync"}:
            await self.close(NOT_UNDERSTOOD)
        elif self.subscription is not None:
            self.feed.resync(self.subscription)

    async def disconnect(self, code: int) -> None:
        for task in self.tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self.subscription is not None:
            await self.feed.unsubscribe(self.subscription)

    async def _pass_on(self, subscription: Subscription) -> None:
        while True:
            await self.send(self.seen(await subscription.next()))

    async def _review(self) -> None:
        """Rights change and people leave while a page stays open."""
        while True:
            await asyncio.sleep(REVIEW_S)
            refusal = await self._refusal()
            if refusal is not None:
                await self.close(refusal)
                return

    async def _refusal(self) -> int | None:
        """The close code for a reader who may not watch this; reads the rights of this moment."""
        user = await database_sync_to_async(_fresh)(self.scope["user"])
        if user is None:
            return SIGNED_OUT
        self.standing = await database_sync_to_async(standing)(user)
        return None if await self.may_watch() else NOT_THERE


def _fresh(user: Any) -> User | None:
    return User.objects.filter(pk=user.pk, is_active=True).first() if user.is_authenticated else None


class QueueConsumer(LiveConsumer):
    def chosen_feed(self) -> Feed:
        return queue_feed()

    def seen(self, message: Message) -> str:
        teams = self.standing.team_names
        return message.text if teams is None else message.as_text(redacted(message.payload, teams))


class ClusterConsumer(LiveConsumer):
    def chosen_feed(self) -> Feed:
        return cluster_feed()


class JobConsumer(LiveConsumer):
    """Also tells when the recorder has written more of the job's history: ``{"type": "recorded"}``; and which log of a
    rank has grown: ``{"type": "logged"}``."""

    @property
    def job_id(self) -> str:
        return cast(str, self.scope["url_route"]["kwargs"]["job_id"])

    @property
    def group(self) -> str:
        return f"job.{self.job_id}"

    def chosen_feed(self) -> Feed:
        return job_feed(self.job_id)

    async def may_watch(self) -> bool:
        found = selectors.visible_jobs(self.standing.team_ids).filter(pk=self.job_id)
        return await found.aexists()

    async def watched(self) -> None:
        try:
            await self.channel_layer.group_add(self.group, self.channel_name)
        except (RedisError, OSError) as error:
            # The live state does not depend on Redis; only news of the history does.
            log.warning("no news of a job's history", job=self.job_id, why=str(error))

    async def disconnect(self, code: int) -> None:
        await super().disconnect(code)
        with suppress(RedisError, OSError):
            await self.channel_layer.group_discard(self.group, self.channel_name)

    async def job_logged(self, event: dict[str, Any]) -> None:
        """From the web process that took in what a rank has written, while somebody looks."""
        await self.send(json.dumps({"type": "logged", "attempt": event["attempt"], "rank": event["rank"]}))

    async def job_changed(self, event: dict[str, Any]) -> None:
        """From the recorder, by the channel layer."""
        await self.send(json.dumps({"type": "recorded", "revision": event["revision"]}))
