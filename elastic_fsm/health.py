"""A health check over HTTP, for the probes of a scheduler.

Any GET is answered with a JSON object: ``alive``, ``age`` (seconds since the last sign of life)
and what the agent says of itself (its state, and since when). The status is 200, or 503 when the
last sign of life is too old.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any

from elastic_fsm.problems import error_text
from elastic_fsm.sources.base import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from elastic_fsm.engine import Engine
    from elastic_fsm.loop import Loop

__all__ = [
    "ALIVE_FOR",
    "HealthCheck",
    "HealthCheckServer",
    "create_healthcheck_server",
    "refuse_taken",
]

ALIVE_FOR = 60.0
"""Seconds after its last sign of life for which an agent counts as alive."""

_LONGEST_REQUEST = 60.0
_LONGEST_WAIT = 2.0


class HealthCheckServer:
    """Answers probes in threads of its own.

    ``alive_callback`` returns when the last sign of life was, in epoch seconds; the agent counts
    as alive for ``timeout`` seconds after it. ``describe`` gives more keys for the answer.
    """

    def __init__(
        self,
        alive_callback: Callable[[], float],
        port: int,
        timeout: float,
        *,
        host: str = "127.0.0.1",
        describe: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self._alive_callback = alive_callback
        self._host = host
        self._port = port
        self._timeout = timeout
        self._describe = describe
        self._server: _Server | None = None

    @property
    def port(self) -> int:
        """Where it listens: of port 0, the one that the system chose."""
        return self._server.server_port if self._server else self._port

    @property
    def alive_callback(self) -> Callable[[], float]:
        """What returns the time of the last sign of life."""
        return self._alive_callback

    def start(self) -> None:
        """Begin to listen. Raises ``OSError`` when the port is taken."""
        self._server = _Server((self._host, self._port), _handler(self.answer))
        threading.Thread(target=self._server.serve, name="health", daemon=True).start()

    def stop(self) -> None:
        """Listen no more; calling it again does nothing."""
        server, self._server = self._server, None
        if server is not None:
            server.end()

    def answer(self) -> tuple[int, dict[str, Any]]:
        """The status and the object of an answer."""
        try:
            age = time.time() - self._alive_callback()
            alive = age <= self._timeout
            answer = {"alive": alive, "age": round(max(0.0, age), 3), **self._describe()}
        except Exception as error:  # whoever asks must get an answer
            return 503, {"alive": False, "error": error_text(error)}
        return (200 if alive else 503), answer


def create_healthcheck_server(
    alive_callback: Callable[[], float], port: int, timeout: float
) -> HealthCheckServer:
    """A server on the loopback interface; it is not started."""
    return HealthCheckServer(alive_callback, port, timeout)


def refuse_taken(address: tuple[str, int]) -> None:
    """Raises ``OSError`` when nobody can listen there."""
    _Server(address, BaseHTTPRequestHandler).server_close()


class _Server(ThreadingHTTPServer):
    """The library's, but nobody polls, and nobody is told of a probe that hangs up."""

    daemon_threads = True
    _ended = False

    def server_bind(self) -> None:
        # The library's own asks for the name of the host, and may wait for that.
        TCPServer.server_bind(self)
        self.server_port = self.server_address[1]

    def serve(self) -> None:
        while not self._ended:
            self.handle_request()
        self.server_close()

    def end(self) -> None:
        self._ended = True
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes who waits for a connection

    def handle_error(self, *_: Any) -> None:
        pass


def _handler(answer: Callable[[], tuple[int, dict[str, Any]]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _LONGEST_REQUEST

        def do_GET(self) -> None:
            status, values = answer()
            body = json.dumps(values).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            """A probe every few seconds is no news."""

    return Handler


class _Pulse:
    """Asks the loop for a sign of life, so that nothing wakes it while nobody asks."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._last = time.time()

    def __call__(self) -> float:
        """When the loop has answered for the last time; waits a moment for it to do so now."""
        answered = threading.Event()
        self._loop.call_soon(answered.set)
        if answered.wait(_LONGEST_WAIT):
            self._last = time.time()
        return self._last


class HealthCheck(Source):
    """A server that runs as long as the engine, and knows its state.

    With ``asks_loop`` a loop that does not answer is no sign of life; without, an engine whose
    actions block is alive all the while.
    """

    def __init__(
        self, engine: Callable[[], Engine], loop: Loop, *, host: str, port: int, asks_loop: bool
    ) -> None:
        self._engine = engine
        self.server = HealthCheckServer(
            _Pulse(loop) if asks_loop else time.time,
            port,
            ALIVE_FOR,
            host=host,
            describe=self._describe,
        )

    def start(self) -> None:
        """Begin to listen."""
        self.server.start()

    def close(self) -> None:
        """Listen no more."""
        self.server.stop()

    def _describe(self) -> dict[str, Any]:
        engine = self._engine()
        return {
            "state": engine.machine.state.name,
            "worker_state": engine.shown.value,
            "seconds_in_state": round(engine.seconds_in_state, 3),
        }
