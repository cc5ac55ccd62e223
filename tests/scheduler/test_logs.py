"""What a process writes to its log, and what it must not."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = """
import structlog
from scheduler import logs
logs.configure()
log = structlog.get_logger()
def sign_in(password):
    try:
        raise RuntimeError("refused")
    except RuntimeError:
        log.exception("sign-in failed", job="J 1")
sign_in("hunter" + "2")
log.debug("not told")
"""


def test_an_error_is_one_line_with_its_traceback_and_without_local_variables() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "."}
    )
    [line] = done.stderr.splitlines()
    assert line.startswith("timestamp=20")
    assert 'level=error event="sign-in failed" job="J 1"' in line
    assert "RuntimeError: refused" in line
    assert "hunter2" not in line
    assert done.stdout == ""
