"""The agent of one GPU host: ``python -m nodes.agent --config /etc/gangway/agent.toml``. See docs/operations.md."""

from __future__ import annotations

import sys

from nodes.agent.program import main

if __name__ == "__main__":
    sys.exit(main())
