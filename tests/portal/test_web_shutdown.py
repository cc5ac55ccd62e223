"""The web process told to end, under its real server, while agents and pages wait for news."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import websockets
from django.conf import settings
from django.db import connection
from knox.models import AuthToken

from nodes.models import Node
from nodes.protocol import SYNC_PATH, encode
from nodes.tokens import token_hash
from portal.supervisor import programs
from portal.supervisor.config import Config
from portal.supervisor.ports import free_port
from portal.supervisor.process import Child
from scheduler.core.types import NodeIntent
from scheduler.store import codec, keys
from scheduler.store.base import Delete, Put
from scheduler.store.etcd import EtcdStore
from tests.nodes.speech import request
from tests.portal.people import make_tree, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url", "s3_url")]

AGENTS = 40
WAIT_S = 10.0
"""What each agent asks to be kept waiting: far longer than the server's patience with open requests."""


def token(number: int) -> str:
    return f"{number:032}"


@pytest.fixture
def fleet(etcd_url: str) -> Iterator[None]:
    """Nodes in both databases, so that agents are known and there is nothing for them to do."""
    store = EtcdStore(etcd_url)
    for number in range(AGENTS):
        intent = NodeIntent(f"h{number}", "az1", "r1", "H100")
        store.commit([], [Put(keys.intent_node(intent.name), codec.encode(intent))])
        Node.objects.create(
            name=intent.name,
            az=intent.az,
            rack=intent.rack,
            gpu_type=intent.gpu_type,
            gpus=8,
            cpus=128,
            memory_gb=2048,
            scratch_gb=8000,
            token_hash=token_hash(token(number)),
        )
    yield
    for entry in store.read(keys.PREFIX).entries:
        store.commit([], [Delete(entry.key)])
    store.close()


@pytest.fixture
def web(fleet: None, tmp_path: Path) -> Iterator[Child]:
    config = Config(tmp_path, port=free_port())
    database = re.sub(r"/\w+(?=\?|$)", f"/{connection.settings_dict['NAME']}", settings.POSTGRES_URL, count=1)
    stores = {
        "GANGWAY_POSTGRES_URL": database,
        "GANGWAY_ETCD_URL": settings.ETCD_URL,
        "GANGWAY_REDIS_URL": settings.REDIS_URL,
        "GANGWAY_S3_URL": settings.S3_URL,
    }
    child = Child(programs.web(config, programs.environ(config, stores, "for-tests")), tmp_path / "web.log")
    child.wait_until_ready()
    yield child
    child.kill()


def address(web: Child) -> str:
    port = web.program.argv[web.program.argv.index("--port") + 1]
    return f"127.0.0.1:{port}"


async def taken_in(client: httpx.AsyncClient) -> int:
    """How many syncs the process has taken in; each then waits for news."""
    text = (await client.get("/metrics")).text
    return sum(int(float(count)) for count in re.findall(r'gangway_agent_syncs_total\{outcome="\w+"\} (\S+)', text))


async def sync(client: httpx.AsyncClient, number: int, sequence: int, known: str = "", wait_s: float = 0) -> str:
    """One sync of an agent; answers the hash of its orders."""
    said = encode(request(sequence, node=f"h{number}", known=known, wait_s=wait_s))
    headers = {"Authorization": f"Bearer {token(number)}"}
    answer = await client.post(SYNC_PATH, content=said, headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["hash"])


@pytest.mark.slow
def test_agents_that_wait_are_let_go_and_nothing_is_cut_off(web: Child) -> None:
    make_tree()
    bearer = {"Authorization": f"Bearer {AuthToken.objects.create(make_user('ada', 'vision'))[1]}"}

    async def script() -> None:
        limits = httpx.Limits(max_connections=AGENTS + 5)
        async with (
            httpx.AsyncClient(base_url=f"http://{address(web)}", limits=limits) as client,
            websockets.connect(f"ws://{address(web)}/ws/cluster/", additional_headers=bearer) as page,
        ):
            await page.recv()
            hashes = await asyncio.gather(*(sync(client, number, 1) for number in range(AGENTS)))
            waiting = [
                asyncio.create_task(sync(client, number, 2, known, WAIT_S)) for number, known in enumerate(hashes)
            ]
            while await taken_in(client) < 2 * AGENTS:
                await asyncio.sleep(0.05)
            web.ask_to_stop()
            assert await asyncio.gather(*waiting) == hashes, "what stood at the end is what they are told"
            with pytest.raises(websockets.ConnectionClosed):
                while True:
                    await page.recv()

    asyncio.run(script())
    told_s = time.monotonic()
    assert web.wait(web.program.stop_within_s)
    assert time.monotonic() - told_s < web.program.stop_within_s
    said = web.log.read_text()
    assert "Traceback" not in said, said
    assert "Cancel" not in said, said
