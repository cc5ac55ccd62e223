"""What only a store over a network has: members that die, cables that break, sign-in, forks, TLS."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest
from aetcd import rpc

from portal.supervisor.servers.etcd import EtcdServer, Tls, cluster
from scheduler.store.base import Committed, Compacted, Compare, Put, StoreUnavailable, Transaction
from scheduler.store.etcd import EtcdStore
from scheduler.store.etcd.store import WINDOW
from scheduler.store.etcd.watch import ASK_S, SILENT_S
from tests.scheduler.store.cable import Cable
from tests.scheduler.store.certificates import authority, certificate
from tests.scheduler.store.conftest import compact
from tests.scheduler.store.seam import answered, drain, values

Stores = list[EtcdStore]


@pytest.fixture
def stores() -> Iterator[Stores]:
    """Stores put in here are closed at the end."""
    opened: Stores = []
    yield opened
    for store in opened:
        store.close()


@pytest.fixture
def cable(own_etcd: EtcdServer) -> Iterator[Cable]:
    made = Cable(own_etcd.port)
    yield made
    made.cut()


@pytest.fixture
def prefix() -> str:
    return f"/etcd/{os.urandom(6).hex()}/"


def opened(stores: Stores, url: str, timeout_s: float = 3) -> EtcdStore:
    store = EtcdStore(url, timeout_s)
    stores.append(store)
    return store


def first_value(watch, within_s: float = 30) -> list[bytes | None]:  # type: ignore[no-untyped-def]
    """The values of the next batch, however often the watch has to find the store again."""
    until = monotonic() + within_s
    while monotonic() < until:
        with suppress(StoreUnavailable):
            if batch := watch.next(0.2):
                return values(batch)
    raise AssertionError("the watch brought nothing")


def await_value(watch, value: bytes) -> None:  # type: ignore[no-untyped-def]
    while first_value(watch)[-1] != value:
        pass  # a commit that was asked for again because nobody answered


def test_a_commit_whose_answer_is_lost_is_not_sent_again(
    own_etcd: EtcdServer, cable: Cable, stores: Stores, prefix: str
) -> None:
    near, far = opened(stores, own_etcd.url), opened(stores, cable.url, timeout_s=1)
    far.commit([], [Put(prefix + "a", b"1")])
    cable.deaf = True
    with pytest.raises(StoreUnavailable):
        far.commit([], [Put(prefix + "a", b"2")])
    entry = near.get(prefix + "a")
    assert entry is not None and entry.value == b"2", "it happened all the same"
    cable.cut()
    cable.mend()
    again = far.get(prefix + "a")
    assert again == entry, "and only once"


def test_a_member_that_hangs_costs_no_more_than_the_timeout(cable: Cable, stores: Stores, prefix: str) -> None:
    store = opened(stores, cable.url, timeout_s=1)
    store.get(prefix + "a")
    cable.deaf = True
    began = monotonic()
    with pytest.raises(StoreUnavailable):
        store.get(prefix + "a")
    assert monotonic() - began < 2


def test_a_read_leaves_a_member_that_hangs_for_one_that_answers(
    own_etcd: EtcdServer, cable: Cable, stores: Stores, prefix: str
) -> None:
    store = opened(stores, f"{cable.url},127.0.0.1:{own_etcd.port}", timeout_s=2)
    store.commit([], [Put(prefix + "a", b"1")])
    cable.deaf = True
    entry = store.get(prefix + "a")
    assert entry is not None and entry.value == b"1"
    assert store.commit([Compare(prefix + "a", mod=entry.mod_revision)], [Put(prefix + "a", b"2")]).ok


def test_a_watch_resumes_where_it_was_when_its_cable_is_mended(
    own_etcd: EtcdServer, cable: Cable, stores: Stores, prefix: str
) -> None:
    near, far = opened(stores, own_etcd.url), opened(stores, cable.url)
    watch = far.watch(prefix, near.commit([], [Put(prefix + "a", b"1")]).revision)
    assert first_value(watch) == [b"1"]
    cable.cut()
    near.commit([], [Put(prefix + "a", b"2")])
    near.commit([], [Put(prefix + "a", b"3")])
    with pytest.raises(StoreUnavailable):
        watch.next(0.5)
    cable.mend()
    assert [*first_value(watch)] in ([b"2", b"3"], [b"2"])


def test_a_watch_notices_a_server_that_froze_and_goes_on_when_it_thaws(
    own_etcd: EtcdServer, cable: Cable, stores: Stores, prefix: str
) -> None:
    near, far = opened(stores, own_etcd.url), opened(stores, cable.url)
    watch = far.watch(prefix, near.commit([], [Put(prefix + "a", b"1")]).revision)
    assert first_value(watch) == [b"1"]
    cable.deaf = True
    until = monotonic() + SILENT_S + ASK_S + 5
    with pytest.raises(StoreUnavailable):
        while monotonic() < until:
            watch.next(0.2)
    near.commit([], [Put(prefix + "a", b"2")])
    cable.cut()
    cable.mend()
    assert first_value(watch) == [b"2"]


def test_a_watch_that_was_away_for_too_long_says_that_it_lost_changes(
    own_etcd: EtcdServer, cable: Cable, stores: Stores, prefix: str
) -> None:
    near, far = opened(stores, own_etcd.url), opened(stores, cable.url)
    watch = far.watch(prefix, near.commit([], [Put(prefix + "a", b"1")]).revision)
    assert first_value(watch) == [b"1"]
    cable.cut()
    for _ in range(3):
        newest = near.commit([], [Put(prefix + "a", b"2")]).revision
    compact(near, newest)
    cable.mend()
    with pytest.raises(Compacted):
        first_value(watch)


def test_a_dead_member_among_three_stops_nobody(tmp_path: Path, stores: Stores, prefix: str) -> None:
    members = cluster(tmp_path, 3)
    try:
        store = opened(stores, ",".join(member.url for member in members), timeout_s=8)
        watch = store.watch(prefix, answered(lambda: store.commit([], [Put(prefix + "a", b"0")])).revision)
        assert first_value(watch) == [b"0"]
        for turn, member in enumerate(members):
            member.kill()
            put = [Put(prefix + "b", f"{turn}".encode())]
            assert answered(lambda: store.commit([], put)).ok  # noqa: B023
            await_value(watch, put[0].value)
            member.start()
    finally:
        for member in members:
            member.kill()


def test_a_cluster_without_a_majority_is_unavailable(tmp_path: Path, stores: Stores, prefix: str) -> None:
    members = cluster(tmp_path, 2)
    try:
        store = opened(stores, ",".join(member.url for member in members), timeout_s=2)
        assert answered(lambda: store.commit([], [Put(prefix + "a", b"")])).ok
        members[0].kill()
        with pytest.raises(StoreUnavailable):
            store.get(prefix + "a")
        with pytest.raises(StoreUnavailable):
            store.commit([], [Put(prefix + "a", b"")])
    finally:
        for member in members:
            member.kill()


def test_tls_with_client_certificates(tmp_path: Path, stores: Stores, prefix: str) -> None:
    ca, ca_key = authority(tmp_path / "ca", "ours")
    cert, key = certificate(tmp_path / "us", ca, ca_key)
    strange_ca, strange_key = authority(tmp_path / "strange-ca", "another")
    strange_cert, strange_cert_key = certificate(tmp_path / "strange", strange_ca, strange_key)
    server = EtcdServer(tmp_path, tls=Tls(ca, cert, key))
    server.start()
    try:
        store = opened(stores, server.url)
        watch = store.watch(prefix, store.commit([], [Put(prefix + "a", b"1")]).revision)
        assert values(drain(watch, 1)) == [b"1"]
        base = f"https://127.0.0.1:{server.port}"
        for url in (
            f"{base}?ca={ca}",
            f"{base}?ca={ca}&cert={strange_cert}&key={strange_cert_key}",
            f"{base}?ca={strange_ca}&cert={cert}&key={key}",
            f"http://127.0.0.1:{server.port}",
        ):
            with pytest.raises(StoreUnavailable):
                opened(stores, url, timeout_s=1).get(prefix + "a")
    finally:
        server.stop()


def test_a_user_signs_in_and_again_when_etcd_forgot_the_token(tmp_path: Path, stores: Stores, prefix: str) -> None:
    server = EtcdServer(tmp_path)
    server.start()
    try:
        _require_sign_in(opened(stores, server.url), "s3cret:/@")
        store = opened(stores, f"http://root:s3cret%3A%2F%40@127.0.0.1:{server.port}", timeout_s=5)
        watch = store.watch(prefix, store.commit([], [Put(prefix + "a", b"1")]).revision)
        assert first_value(watch) == [b"1"]
        server.restart()  # its tokens live in memory
        assert answered(lambda: store.commit([], [Put(prefix + "a", b"2")])).ok
        await_value(watch, b"2")
        with pytest.raises(StoreUnavailable):
            opened(stores, server.url).get(prefix + "a")
        with pytest.raises(StoreUnavailable, match="authentication failed"):
            opened(stores, f"http://root:wrong@127.0.0.1:{server.port}").get(prefix + "a")
    finally:
        server.stop()


def _require_sign_in(store: EtcdStore, password: str) -> None:
    for method, request in (
        ("UserAdd", rpc.AuthUserAddRequest(name="root", password=password)),
        ("RoleAdd", rpc.AuthRoleAddRequest(name="root")),
        ("UserGrantRole", rpc.AuthUserGrantRoleRequest(user="root", role="root")),
        ("AuthEnable", rpc.AuthEnableRequest()),
    ):
        store._channel.read(lambda member, timeout, _: getattr(member.auth, method)(request, timeout))  # noqa: B023


def test_threads_share_a_store(own_etcd: EtcdServer, stores: Stores, prefix: str) -> None:
    store = opened(stores, own_etcd.url, timeout_s=10)

    def write(thread: int) -> bool:
        return all(store.commit([], [Put(f"{prefix}{thread}/{number}", b"")]).ok for number in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, range(8)))
    assert len(store.read(prefix).entries) == 400


def test_a_forked_child_opens_its_own_connection(own_etcd: EtcdServer, stores: Stores, prefix: str) -> None:
    program = (
        "import os, sys\n"
        "from scheduler.store.base import Put\n"
        "from scheduler.store.etcd import EtcdStore\n"
        "store = EtcdStore(sys.argv[1])\n"
        "child = os.fork()\n"
        "store.commit([], [Put(sys.argv[2] + ('parent' if child else 'child'), b'')])\n"
        "if child:\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", program, own_etcd.url, prefix], check=True, timeout=30)
    keys = [entry.key for entry in opened(stores, own_etcd.url).read(prefix).entries]
    assert keys == [prefix + "child", prefix + "parent"]


def test_a_closed_store_says_so(own_etcd: EtcdServer, stores: Stores, prefix: str) -> None:
    store = opened(stores, own_etcd.url)
    watch = store.watch(prefix, store.commit([], [Put(prefix + "a", b"1")]).revision)
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.get(prefix + "a")
    assert watch.next(60) is None


def test_what_was_acknowledged_before_a_kill_is_there_after_it(
    own_etcd: EtcdServer, stores: Stores, prefix: str
) -> None:
    store = opened(stores, own_etcd.url, timeout_s=3)
    commits: list[Transaction] = [
        ([Compare(f"{prefix}{number}", mod=0)], [Put(f"{prefix}{number}", b"x" * 500)]) for number in range(20_000)
    ]
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(store.commit_many, commits)
        watch = store.watch(prefix, store.read(prefix).revision)
        first_value(watch)
        own_etcd.kill()
        outcomes = sending.result()
    own_etcd.start()
    done = {f"{prefix}{number}" for number, outcome in enumerate(outcomes) if isinstance(outcome, Committed)}
    lost = [outcome for outcome in outcomes if isinstance(outcome, StoreUnavailable)]
    assert done and lost, "the kill fell in the middle"
    found = {entry.key for entry in opened(stores, own_etcd.url).read(prefix).entries}
    assert done <= found
    assert len(found - done) <= WINDOW, "only what was in flight is in doubt"
