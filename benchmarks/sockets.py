"""The live map with many readers: how soon all see a change, how large a snapshot is, how soon the map is drawn.

    python -m benchmarks.sockets [--json FILE]     # a part of `make bench-e2e`

Starts `manage.py up` with the full fleet (or takes a system that runs already, by `--data`), fills it with gangs that
stay, opens the map in a browser with nothing in its cache some times, then opens 200 sockets and cordons hosts or takes
that back. When a change was committed is seen by a watch on the state store itself; it is on a socket's wire with the
first message whose revision is not below the commit's. Exit status 1 if a bound is broken, 2 if nothing was measured.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import re
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import httpx
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.running import NotRun, as_person, running, web_process
from benchmarks.table import Figure, quantile, show
from scheduler.store import keys
from scheduler.store.etcd import EtcdStore

if TYPE_CHECKING:
    from playwright.sync_api import Browser, StorageState

SOCKETS, CHANGES, PAUSE_S = 200, 80, 0.25
MOST_MS, MOST_KB, MOST_PAINT_MS = 500.0, 80.0, 1000.0
GANGS, SIZES, TYPES = 600, (1, 1, 2, 4, 8, 8, 16, 32, 64), {"H100": 70, "A100": 20, "L40S": 10}
FILLED, FILL_WITHIN_S = 0.85, 120.0
LAST_WITHIN_S = 5.0
PAINTS = 5
CHROMIUM = "/usr/bin/chromium"
REVISION = re.compile(r'"revision":(\d+)')
FIRST_DRAWN = """
new MutationObserver((_, observer) => {
  if (!document.getElementById("map")?.dataset.drawn) return;
  window.firstDrawn = performance.now();
  observer.disconnect();
}).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-drawn"] });
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sockets", description=__doc__)
    parser.add_argument("--data", type=Path, help="GANGWAY_DATA of a system that runs already, instead of a new one")
    parser.add_argument("--fleet", choices=("small", "full"), default="full")
    parser.add_argument("--sockets", type=int, default=SOCKETS)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    asked = parser.parse_args()
    try:
        with running(asked.data, asked.fleet) as data:
            figures = _measure(data, asked.sockets)
    except NotRun as error:
        sys.stderr.write(f"sockets: {error}\n")
        return 2
    show("sockets", figures, asked.json)
    return 0 if all(figure.holds for figure in figures) else 1


def _measure(data: Path, sockets: int) -> list[Figure]:
    demo = json.loads((data / "demo.json").read_text())
    hosts, held = _fill(demo)
    figures = [Figure("hosts", hosts, ""), Figure("GPUs held by gangs", 100 * held, "%")]
    figures += [Figure("map drawn, from a cold start", one, "ms", MOST_PAINT_MS) for one in _paints(demo)]
    web = web_process(demo["url"])
    with _commits(web.environ()["GANGWAY_ETCD_URL"]) as commits:
        before_s, began_s = sum(web.cpu_times()[:2]), time.monotonic()
        readers = asyncio.run(_read_while_changing(demo, sockets, commits))
        busy = (sum(web.cpu_times()[:2]) - before_s) / (time.monotonic() - began_s)
    late = sorted(1000 * after for reader in readers for after in reader.delays(commits))
    missed = sum(len(commits) for _ in readers) - len(late)
    return [
        *figures,
        Figure("snapshot, gzip", len(gzip.compress(readers[0].snapshot.encode())) / 1000, "kB", MOST_KB),
        Figure("sockets", len(readers), ""),
        Figure("changes", len(commits), ""),
        Figure("changes that a socket never saw", missed, "", 0.0),
        Figure("commit to wire, p50", quantile(late, 0.50), "ms"),
        Figure("commit to wire, p99", quantile(late, 0.99), "ms", MOST_MS),
        Figure("commit to wire, the last of all", quantile(late, 1.0), "ms"),
        Figure("web process meanwhile", 100 * busy, "% of a core"),
    ]


# --- the fleet --------------------------------------------------------------------------------------------------


def _fill(demo: dict[str, Any]) -> tuple[int, float]:
    """Submit gangs that stay until they hold most of the fleet; answers its hosts and the share held."""
    random = Random(1)
    with httpx.Client(base_url=demo["url"], headers=as_person(demo, "researcher"), timeout=30) as http:
        for number in range(GANGS):
            _accepted(http.post("/api/v1/jobs", json=_gang(demo["team"], number, random)))
        until_s = time.monotonic() + FILL_WITHIN_S
        while True:
            cluster = http.get("/api/v1/cluster").json()
            gpus = cluster["gpus"].values()
            held = sum(kind["used"] for kind in gpus) / sum(kind["total"] for kind in gpus)
            if held >= FILLED or time.monotonic() > until_s:
                return sum(cluster["hosts"].values()), float(held)
            time.sleep(0.5)


def _gang(team: str, number: int, random: Random) -> dict[str, Any]:
    return {
        "name": f"stays-{number}",
        "team": team,
        "image": "registry.example.com/bench:1",
        "command": ["python", "-m", "train"],
        "resources": {
            "gpu_count": random.choice(SIZES),
            "gpu_type": random.choices(list(TYPES), list(TYPES.values()))[0],
        },
        "max_runtime_hours": 24,
        "env": {"GANGWAY_SIM_RUNTIME_S": "36000"},
    }


def _accepted(answer: httpx.Response) -> None:
    if answer.status_code >= 300:
        raise NotRun(f"{answer.request.url.path} was answered {answer.status_code}: {answer.text[:200]}")


@contextmanager
def _commits(etcd: str) -> Iterator[dict[int, float]]:
    """Revision → when it was seen, by the monotonic clock, of each commit to a host's intent; filled while it runs."""
    seen: dict[int, float] = {}
    ending = threading.Event()
    store = EtcdStore(etcd)
    watch = store.watch(keys.INTENT_NODES, store.read(keys.LEADER).revision + 1)

    def follow() -> None:
        while not ending.is_set():
            batch = watch.next(0.2)
            now_s = time.monotonic()
            for change in batch.changes if batch else ():
                if change.entry is not None:
                    seen.setdefault(change.entry.mod_revision, now_s)

    thread = threading.Thread(target=follow, name="commits")
    thread.start()
    try:
        yield seen
    finally:
        ending.set()
        thread.join()
        watch.close()
        store.close()


# --- the readers ------------------------------------------------------------------------------------------------


class Reader:
    """One socket on the map: its snapshot, and which revision it was shown when."""

    def __init__(self, connection: ClientConnection, snapshot: str) -> None:
        self.connection, self.snapshot = connection, snapshot
        self.revisions, self.times = [_revision(snapshot)], [time.monotonic()]

    async def read(self) -> None:
        async for message in self.connection:
            self.times.append(time.monotonic())
            self.revisions.append(_revision(str(message)))

    def delays(self, commits: dict[int, float]) -> list[float]:
        """Seconds from each commit until it was shown; without those that never were."""
        at = {revision: bisect_left(self.revisions, revision) for revision in commits}
        return [self.times[n] - commits[revision] for revision, n in at.items() if n < len(self.times)]


def _revision(message: str) -> int:
    """The first one in the text is the message's own."""
    found = REVISION.search(message, 0, 200)
    if found is None:
        raise NotRun(f"a message without a revision: {message[:100]}")
    return int(found[1])


async def _read_while_changing(demo: dict[str, Any], sockets: int, commits: dict[int, float]) -> list[Reader]:
    address = demo["url"].replace("http", "ws", 1) + "/ws/cluster/"
    readers = []
    for _ in range(sockets):
        connection = await connect(address, additional_headers=as_person(demo, "oncall"), max_size=None)
        readers.append(Reader(connection, str(await connection.recv())))
    reading = [asyncio.create_task(reader.read()) for reader in readers]
    await asyncio.to_thread(_change, demo)
    last, until_s = max(commits, default=0), time.monotonic() + LAST_WITHIN_S
    while any(reader.revisions[-1] < last for reader in readers) and time.monotonic() < until_s:
        await asyncio.sleep(0.05)
    for reader in readers:
        await reader.connection.close()
    await asyncio.gather(*reading)
    return readers


def _change(demo: dict[str, Any]) -> None:
    """Cordon a host, then take it back, and so on, at a steady pace."""
    random = Random(2)
    with httpx.Client(base_url=demo["url"], headers=as_person(demo, "oncall"), timeout=30) as http:
        known = [host["name"] for host in http.get("/api/v1/nodes").json()["items"]]
        hosts = random.choices(known, k=CHANGES // 2)
        began_s = time.monotonic()
        for turn in range(CHANGES):
            act = "uncordon" if turn % 2 else "cordon"
            _accepted(http.post(f"/api/v1/nodes/{hosts[turn // 2]}/{act}", json={"reason": "to be measured"}))
            time.sleep(max(0.0, began_s + (turn + 1) * PAUSE_S - time.monotonic()))


# --- the browser ------------------------------------------------------------------------------------------------


def _paints(demo: dict[str, Any]) -> list[float]:
    """The middle of some visits with an empty cache: from the start of the navigation until the map is drawn; nothing
    where there is no browser."""
    if not Path(CHROMIUM).exists():
        return []
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        session = _signed_in(browser, demo)
        times = sorted(_first_drawn(browser, demo, session) for _ in range(PAINTS))
        browser.close()
    return [times[PAINTS // 2]]


def _signed_in(browser: Browser, demo: dict[str, Any]) -> StorageState:
    person = next(user for user in demo["users"] if user["role"] == "oncall")
    context = browser.new_context(base_url=demo["url"])
    page = context.new_page()
    page.goto("/sign-in/")
    page.get_by_label("User name").fill(person["name"])
    page.get_by_label("Password").fill(person["password"])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("navigation", name="Main").wait_for()
    state = context.storage_state()
    context.close()
    return state


def _first_drawn(browser: Browser, demo: dict[str, Any], session: StorageState) -> float:
    context = browser.new_context(base_url=demo["url"], storage_state=session, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.add_init_script(FIRST_DRAWN)
    page.goto("/cluster/")
    page.locator("#map[data-drawn]").wait_for()
    drawn = float(page.evaluate("window.firstDrawn"))
    context.close()
    return drawn


if __name__ == "__main__":
    sys.exit(main())
