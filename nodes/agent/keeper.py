"""The parent of one rank: ``python -I -S keeper.py DIRECTORY`` starts what ``launch.json`` in that directory says.

It outlives the agent, and is all that stands between a rank and the host. It starts the rank in a session of its own,
passes on what the agent asks for by signals, ends the rank by itself when the node's lease ends, reaps whatever the
rank has started, in whichever session, and at last writes ``exit.json``. Standard library alone: there is one for each
rank, so it has to be small, and an upgrade of the agent must not pull modules from under it.

Signals to the keeper: ``SAVE``, ``END``, ``KILL``. They are blocked from before its first instruction (the agent starts
it so), and are taken one by one, together with the end of children: no handler ever runs in between.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import sys
import time
from typing import Any, NoReturn

SAVE, END, KILL = signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR2
HEARD = frozenset({SAVE, END, KILL, signal.SIGCHLD})

LAUNCH, LOCK, WHO, STOP, EXIT, OUTPUT = "launch.json", "lock", "keeper.json", "stop", "exit.json", "output.log"

LOCK_WITHIN_S = 2.0
"""An agent that looks whether the lock is held holds it itself for a moment."""
LOOK_S = 5.0
"""How often the lease is read while its end is not known."""
RETRY_MS = 100
PATIENCE_S = 0.05
"""The pause between two tries to end processes that do not end."""
LISTENS_S = 0.1
"""The first pause before another look whether anything listens to a request to save; each is twice the last."""
COMMAND_S = 20.0
"""How long a container engine may take to obey before its command line is given up."""
CANNOT_EXECUTE, NOT_FOUND = 126, 127
"""A shell's exit codes for what cannot be started."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def clock_ms() -> int:
    """The clock of leases: milliseconds since the host has started, those asleep counted."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def kernel_boot() -> str:
    """Names this run of the host's kernel: moments of ``clock_ms`` compare within one alone."""
    with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123 - pathlib is not worth its memory here
        return file.read().strip()


def start_of(pid: int) -> int:
    """When the process was started, in ticks since the host was: with its pid it names one process for ever.

    Raises:
        OSError: there is no such process.
    """
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
        return int(file.read().rpartition(")")[2].split()[19])


def write(name: str, record: dict[str, Any]) -> None:
    """Write the record in one step: a crash leaves the file whole or not there."""
    fresh = f"{name}.new"
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, name)  # noqa: PTH105


def read(name: str) -> Any:
    """What the file holds; None where there is none."""
    try:
        with open(name) as file:  # noqa: PTH123
            return json.load(file)
    except FileNotFoundError:
        return None


class Keeper:
    """One rank's life. Its working directory is the rank's."""

    def __init__(self, launch: dict[str, Any]) -> None:
        self._launch = launch
        self._pid = 0
        self._code: int | None = None
        """How the rank itself ended, negative for a signal."""
        self._asked = ""
        """Why the rank was asked to end: by the ``agent``, or with the node's ``lease``."""
        self._unheard_s = 0.0
        """The pause before a request to save that nothing has listened to is tried again; 0: there is none."""

    def keep(self) -> None:
        """From the start of the rank to its exit code on disk."""
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._pid = self._start()
        write(WHO, {"keeper": _named(os.getpid()), "rank": _named(self._pid)})
        while self._code is None:
            self._wait()
        self._end_what_is_left()
        self._command("remove")
        write(EXIT, {"code": self._code, "asked": self._asked, "at_ms": time.time_ns() // 1_000_000})

    # --- the start

    def _start(self) -> int:
        keeper = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            self._become_the_rank(keeper)
        except OSError as error:
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE
            os.write(2, f"gangway: cannot execute {self._launch['argv'][0]}: {error.strerror}\n".encode())
            os._exit(code)
        finally:
            os._exit(CANNOT_EXECUTE)

    def _become_the_rank(self, keeper: int) -> NoReturn:
        os.setsid()
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(CANNOT_EXECUTE)  # the keeper died before the kernel was told
        output = os.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open("/dev/null", os.O_RDONLY)
        for source, target in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        if self._launch["cgroup"]:
            with open(os.path.join(self._launch["cgroup"], "cgroup.procs"), "w") as file:  # noqa: PTH118, PTH123
                file.write("0")
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.chdir(self._launch["cwd"])
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)  # Python and whoever started the agent may have had some ignored
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(self._launch["argv"][0], self._launch["argv"], self._launch["env"])  # noqa: S606 - as it should be

    # --- while it runs

    def _wait(self) -> None:
        """Until something happens: a signal of the agent, the end of a process, the end of the lease."""
        left_ms = self._left_ms()
        if left_ms <= 0:
            self._kill("lease")
            left_ms = int(LOOK_S * 1000)
        left_s = left_ms / 1000
        info = signal.sigtimedwait(HEARD, min(left_s, self._unheard_s or left_s))
        self._reap()
        if self._code is not None:
            return
        heard = 0 if info is None else info.si_signo
        if heard == SAVE or (not heard and self._unheard_s):
            self._save()
        elif heard == END:
            self._asked = self._asked or "agent"
            self._unheard_s = 0.0  # what was not saved by now is not saved any more
            self._end()
        elif heard == KILL:
            self._kill("agent")

    def _left_ms(self) -> int:
        """Until the lease has to be looked at again; 0 or less: it has ended."""
        try:
            lease = read(self._launch["lease"])
        except ValueError:
            return RETRY_MS  # caught while it was written
        if lease is None or lease["until_ms"] is None or lease["boot"] != kernel_boot():
            return int(LOOK_S * 1000)
        return int(lease["until_ms"] - clock_ms())

    def _save(self) -> None:
        """Ask for a checkpoint: by the engine of a container, otherwise of the processes that listen.

        One that does not listen would be ended by the signal. A program that is still starting hears of it later.
        """
        number = self._launch["save_signal"]
        if self._command("signal", number):
            return
        listening = _listening(self._pid, number)
        for pid in listening:
            _signal(pid, number)
        self._unheard_s = 0.0 if listening else min(LOOK_S, 2 * self._unheard_s or LISTENS_S)

    def _end(self) -> None:
        """Ask the rank's process group, or its container, to end."""
        if self._command("signal", signal.SIGTERM):
            return
        try:
            os.killpg(self._pid, signal.SIGTERM)
        except ProcessLookupError:
            return  # it has ended meanwhile

    def _kill(self, why: str) -> None:
        self._asked = self._asked or why
        self._command("kill")
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _command(self, name: str, number: int = 0) -> bool:
        """Run the engine's command for this, if the rank is a container; whether it is."""
        argv = [word.replace("{signal}", str(number)) for word in self._launch[name]]
        if not argv:
            return False
        pid = os.fork()
        if not pid:
            nothing = os.open("/dev/null", os.O_RDWR)
            for target in (0, 1, 2):
                os.dup2(nothing, target)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            try:
                os.execvpe(argv[0], argv, self._launch["env"])  # noqa: S606
            finally:
                os._exit(NOT_FOUND)
        self._wait_for(pid)
        return True

    def _wait_for(self, pid: int) -> None:
        until_s = time.monotonic() + COMMAND_S
        while time.monotonic() < until_s:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            time.sleep(PATIENCE_S)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    # --- the end

    def _reap(self) -> bool:
        """Take the exit of every child that has ended; False once there are no children."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self._pid:
                self._code = os.waitstatus_to_exitcode(status)

    def _end_what_is_left(self) -> None:
        """Until nothing lives that the rank has started. Its GPUs are not free before that."""
        group = self._launch["cgroup"]
        while self._reap():
            if group:
                _end_group(group)
            for pid in _children(os.getpid()):
                _signal(pid, signal.SIGKILL)
            time.sleep(PATIENCE_S)
        if group:
            os.rmdir(group)  # noqa: PTH106


def _end_group(group: str) -> None:
    try:
        with open(os.path.join(group, "cgroup.kill"), "w") as file:  # noqa: PTH118, PTH123
            file.write("1")
    except OSError:
        return  # a kernel before 5.14: the children are killed one by one


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        return  # it has ended between the two looks, or is another user's by now: it counts as living until it ends


def _listening(pid: int, number: int) -> list[int]:
    """The process if it handles the signal; otherwise, as below a shell, the nearest below it that do."""
    try:
        with open(f"/proc/{pid}/status") as file:  # noqa: PTH123
            caught = next(line.split()[1] for line in file if line.startswith("SigCgt:"))
    except (OSError, StopIteration):
        return []  # it has ended
    if int(caught, 16) >> (number - 1) & 1:
        return [pid]
    return [found for child in _children(pid) for found in _listening(child, number)]


def _children(of: int) -> list[int]:
    """The processes whose parent is ``of``, by now."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:  # noqa: PTH123
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it has ended between the two looks
        if int(parent) == of and state != "Z":
            found.append(int(name))
    return found


def _named(pid: int) -> dict[str, int]:
    return {"pid": pid, "start": start_of(pid)}


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def _locked() -> bool:
    """Take the rank's lock for as long as this process lives; False if it has a keeper already."""
    handle = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    until_s = time.monotonic() + LOCK_WITHIN_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until_s:
                return False
            time.sleep(PATIENCE_S)


def main(directory: str) -> None:
    """Keep the rank of this directory, unless it has a keeper, or has ended, or is not to be started any more."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    os.chdir(directory)
    if not _locked() or os.path.exists(EXIT) or os.path.exists(STOP):  # noqa: PTH110
        return
    Keeper(read(LAUNCH)).keep()


if __name__ == "__main__":
    main(sys.argv[1])
