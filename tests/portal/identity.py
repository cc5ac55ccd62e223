"""An OpenID Connect provider on loopback: it lets in whoever the test says, and keeps count of what it was asked."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt

CLIENT = "gangway"


@dataclass
class Provider:
    """``claims`` are those of the person who signs in; ``broken`` has every exchange of a code fail."""

    url: str
    claims: dict[str, Any] = field(default_factory=dict)
    exchanged: list[dict[str, str]] = field(default_factory=list)
    broken: bool = False

    def answer(self, path: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if path == "/.well-known/openid-configuration":
            return 200, {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "userinfo_endpoint": f"{self.url}/userinfo",
                "jwks_uri": f"{self.url}/keys",
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
            }
        if path == "/token":
            self.exchanged.append(form)
            return (400, {"error": "invalid_grant"}) if self.broken else (200, self._tokens())
        return (200, self.claims) if path == "/userinfo" else (404, {})

    def _tokens(self) -> dict[str, Any]:
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 60, **self.claims}
        identity = jwt.encode(claims, "a secret of the provider's own, long enough", algorithm="HS256")
        return {"access_token": "access", "token_type": "Bearer", "expires_in": 60, "id_token": identity}


@contextmanager
def provider() -> Iterator[Provider]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._reply({name: values[0] for name, values in parse_qs(body).items()})

        def _reply(self, form: dict[str, str]) -> None:
            status, body = shown.answer(self.path, form)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: Any) -> None:
            """The test says what it wants to see."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        shown = Provider(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield shown
        finally:
            server.shutdown()
            thread.join()
