"""Object storage that misbehaves on order: a proxy before the S3 server of the tests."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

HOP = ("connection", "transfer-encoding", "content-length", "host")


class Faults:
    """What the proxy does from now on. ``status`` answers every request, ``delay_s`` holds it up, ``gone`` hangs up.

    ``only`` restricts it to a method; ``requests`` counts what came in.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self.delay_s = 0.0
        self.gone = False
        self.only: str | None = None
        self.requests = 0
        self.url = ""

    def heal(self) -> None:
        self.status, self.delay_s, self.gone, self.only = None, 0.0, False, None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    faults: ClassVar[Faults]
    behind: ClassVar[str]

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client's patience was over
            super().handle()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        faults = self.faults
        faults.requests += 1
        if faults.only in (None, self.command):
            time.sleep(faults.delay_s)
            if faults.gone:
                self.close_connection = True
                return
            if faults.status is not None:
                self._answer(faults.status, [], b"")
                return
        upstream = http.client.HTTPConnection(self.behind, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
        upstream.request(self.command, self.path, body, headers | {"Host": self.headers["Host"]})
        found = upstream.getresponse()
        self._answer(found.status, found.getheaders(), found.read())
        upstream.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        sized = False
        for name, value in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                self.send_header(name, value)
                sized = True
            elif name.lower() not in (*HOP, "date", "server"):
                self.send_header(name, value)
        if not sized:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve

    def log_message(self, *_: Any) -> None:
        """The tests' output is no place for it."""


@contextmanager
def behind_faults(url: str) -> Iterator[Faults]:
    """A proxy before the server at ``url``; its address is in ``.url``."""
    faults = Faults()
    handler = type("Handler", (_Handler,), {"faults": faults, "behind": urlsplit(url).netloc})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    faults.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield faults
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
