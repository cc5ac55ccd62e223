"""The supervisor: what ends starts again, ever later; what stops, stops in order; a signal is heeded anywhere."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest

from portal.supervisor.process import CannotStart
from portal.supervisor.supervise import StopAsked, Supervisor
from tests.portal.supervisor.conftest import WAITS, python


def test_a_program_that_is_killed_starts_again(supervisor: Supervisor, said: list[str]) -> None:
    supervisor.start([python("web", WAITS)])
    [[kept]] = supervisor.tiers
    first = kept.child.pid

    def meanwhile() -> None:
        os.kill(first, signal.SIGKILL)
        _until(lambda: kept.child.pid != first)

    _run_beside(supervisor, meanwhile)
    assert kept.child.exit_code() is None
    assert said == ["web ended (killed by SIGKILL); it starts again in 0.4 s"]


def test_a_program_that_keeps_failing_waits_longer_each_time(
    supervisor: Supervisor, said: list[str], tmp_path: Path
) -> None:
    started = tmp_path / "started"
    code = f"import os\nwhile not os.path.exists({str(started)!r}): pass\nraise SystemExit(3)"
    supervisor.start([python("flaky", code)])
    started.touch()
    _run_beside(supervisor, lambda: _until(lambda: len(said) >= 3))
    assert said[:3] == [
        "flaky ended (exit status 3); it starts again in 0.4 s",
        "flaky ended (exit status 3); it starts again in 0.8 s",
        "flaky ended (exit status 3); it starts again in 1.6 s",
    ]


def test_tiers_stop_in_the_opposite_order_of_their_start(supervisor: Supervisor, tmp_path: Path) -> None:
    order = tmp_path / "order"
    note = (
        "import signal, pathlib, sys\n"
        "def end(*_):\n"
        "    with open({order!r}, 'a') as f: f.write({name!r} + ' ')\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); pathlib.Path({mark!r}).touch(); signal.pause()"
    )
    for name in ("store", "web", "fleet"):
        mark = tmp_path / name
        code = note.format(order=str(order), name=name, mark=str(mark))
        supervisor.start([python(name, code, ready=mark.exists)])
    supervisor.stop()
    assert order.read_text().split() == ["fleet", "web", "store"]


def test_a_signal_while_something_is_waited_for_ends_the_wait(supervisor: Supervisor) -> None:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(StopAsked):
        supervisor.start([python("slow", WAITS, ready=lambda: False)])
    [[kept]] = supervisor.tiers
    supervisor.stop()
    assert kept.child.exit_code() is not None


def test_a_second_interrupt_does_not_cut_the_shutdown_short(supervisor: Supervisor, tmp_path: Path) -> None:
    mark, done = tmp_path / "ready", tmp_path / "done"
    code = (
        "import signal, pathlib, sys, time\n"
        f"def end(*_): time.sleep(0.5); pathlib.Path({str(done)!r}).touch(); sys.exit()\n"
        f"signal.signal(signal.SIGTERM, end); pathlib.Path({str(mark)!r}).touch(); signal.pause()"
    )
    supervisor.start([python("careful", code, ready=mark.exists)])
    for delay in (0.1, 0.3, 0.4):
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
    supervisor.run()
    supervisor.stop()
    assert done.exists()


def test_one_that_fails_at_the_start_is_told_and_the_rest_is_stopped(tmp_path: Path, said: list[str]) -> None:
    with pytest.raises(CannotStart, match="broken ended at the start"), Supervisor(tmp_path, said.append) as running:
        running.start([python("sound", WAITS)])
        sound = running.tiers[0][0].child
        running.start([python("broken", "raise SystemExit('no')", ready=lambda: False)])
    assert sound.exit_code() is not None


def test_a_preparation_that_fails_is_told_with_its_last_line(supervisor: Supervisor) -> None:
    with pytest.raises(CannotStart, match="prepare failed: disk on fire"):
        supervisor.run_once(python("prepare", "raise SystemExit('disk on fire')"))


def _run_beside(supervisor: Supervisor, meanwhile: Callable[[], None]) -> None:
    """Run the supervisor until ``meanwhile`` is over."""
    failed: list[BaseException] = []

    def beside() -> None:
        try:
            meanwhile()
        except BaseException as error:
            failed.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=beside)
    thread.start()
    supervisor.run()
    thread.join()
    assert not failed


def _until(condition: Callable[[], bool]) -> None:
    end = monotonic() + 60
    while not condition():
        assert monotonic() < end, "it did not come true within 60 s"
        sleep(0.02)
