"""A cable between a client and a server that tests cut, mend and squeeze."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Lock, Thread

from portal.supervisor.ports import free_port


class Cable:
    """Forwards TCP from ``port`` to the server's port.

    ``cut()`` breaks every connection and refuses new ones until ``mend()``. While ``deaf``, what the server answers is
    thrown away and the connection stays open: the request arrives, its answer never does.
    """

    def __init__(self, server_port: int) -> None:
        self.port = free_port()
        self.deaf = False
        self._server_port = server_port
        self._lock = Lock()
        self._sockets: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self.mend()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def mend(self) -> None:
        self.deaf = False
        listener = socket.create_server(("127.0.0.1", self.port))
        self._listener = listener
        Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            listener, self._listener = self._listener, None
            cut, self._sockets = self._sockets, []
        for each in [*cut, *filter(None, [listener])]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                return
            with self._lock:
                self._sockets += [client, server]
            Thread(target=self._forward, args=(client, server, False), daemon=True).start()
            Thread(target=self._forward, args=(server, client, True), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if not (answers and self.deaf):
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
