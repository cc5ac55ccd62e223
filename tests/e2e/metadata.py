"""The metadata servers of AWS, GCP and Azure on loopback, as far as an agent asks them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NOTICE_S = {"aws": 120.0, "gcp": 30.0, "azure": 30.0}
"""How long before the end each of them says so."""
GCP_WAIT_S = 20.0


class Provider:
    """One provider. ``url`` is its metadata server's; ``acknowledged_s`` when Azure was told to go on, None before."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.url = ""
        self.gone_at_s: float | None = None
        self.advised = False
        self.acknowledged_s: float | None = None
        self._told = threading.Condition()

    def take_back(self) -> None:
        """Give notice."""
        with self._told:
            self.gone_at_s = time.time() + NOTICE_S[self.name]
            self._told.notify_all()

    def advise(self) -> None:
        """AWS: say that the host may be taken back, and that others are there."""
        self.advised = True

    def answer(self, method: str, path: str, headers: Any) -> tuple[int, str]:
        match self.name:
            case "aws":
                return self._aws(method, path, headers)
            case "gcp":
                return self._gcp(path, headers)
            case _:
                return self._azure(method, headers)

    def _aws(self, method: str, path: str, headers: Any) -> tuple[int, str]:
        if (method, path) == ("PUT", "/latest/api/token"):
            return 200, "token"
        if headers.get("X-aws-ec2-metadata-token") != "token":
            return 401, ""
        if path == "/latest/meta-data/events/recommendations/rebalance" and self.advised:
            return 200, json.dumps({"noticeTime": "2026-10-27T08:22:00Z"})
        if path != "/latest/meta-data/spot/instance-action" or self.gone_at_s is None:
            return 404, ""
        at = datetime.fromtimestamp(self.gone_at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return 200, json.dumps({"action": "terminate", "time": at})

    def _gcp(self, path: str, headers: Any) -> tuple[int, str]:
        if headers.get("Metadata-Flavor") != "Google":
            return 403, ""
        if "/maintenance-event" in path:
            if "wait_for_change" in path:
                time.sleep(GCP_WAIT_S)
            return 200, "NONE"
        with self._told:
            if "wait_for_change" in path and self.gone_at_s is None:
                self._told.wait(GCP_WAIT_S)
            return 200, "FALSE" if self.gone_at_s is None else "TRUE"

    def _azure(self, method: str, headers: Any) -> tuple[int, str]:
        if headers.get("Metadata") != "true":
            return 400, ""
        if method == "POST":
            self.acknowledged_s = self.acknowledged_s or time.time()
            return 200, ""
        events = []
        if self.gone_at_s is not None:
            at = format_datetime(datetime.fromtimestamp(self.gone_at_s, UTC), usegmt=True)
            event = {"EventId": "e-1", "EventStatus": "Scheduled", "EventType": "Preempt", "Resources": ["vm_0"]}
            events = [{**event, "ResourceType": "VirtualMachine", "NotBefore": at}]
        return 200, json.dumps({"DocumentIncarnation": len(events), "Events": events})


@contextmanager
def served(name: str) -> Iterator[Provider]:
    """A provider's metadata server, until the end of the block."""
    provider = Provider(name)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, text = provider.answer(self.command, self.path, self.headers)
            raw = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.send_header("ETag", f"{len(raw)}{text[:1] or 0}")
            with suppress(ConnectionError):  # it asked to be told of changes, and does not wait for them any more
                self.end_headers()
                self.wfile.write(raw)

        do_GET = do_PUT = do_POST = _serve

        def log_message(self, format: str, *args: Any) -> None:
            """The agent's own log says what it was told."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
