"""Open files: a connection for each of a thousand agents is more than a login shell's usual 1,024."""

from __future__ import annotations

import resource


def allow_many_files() -> int:
    """Raise this process' soft limit of open files to the hard one; answers the new limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
