"""gunicorn worker that reads requests in its main thread and hands complete ones to threads.

A slow or silent client occupies a socket and some memory, but no thread. The main thread accepts connections, makes
TLS handshakes, receives requests with their bodies and sends what is left of answers, all without blocking; a thread
of the pool runs the app on a complete request. gunicorn's parser and its WSGI environment are used as they are.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus

from gunicorn.http import wsgi
from gunicorn.workers.base import Worker

from service.http.problems import error_location
from service.server.acceptor import Acceptor
from service.server.client_addresses import ClientAddresses
from service.server.client_connection import ClientConnection, Stage
from service.server.connection_table import ConnectionTable
from service.server.memory_limits import MemoryLimits
from service.server.plain_answers import error_answer, problem_answer
from service.server.request_loop import RequestLoop
from service.server.tls import TlsContext

TICK_SECONDS = 0.5  # interval of the checks of all connections
SHUTDOWN_STEP_SECONDS = 0.1
MAX_BACKLOG = 128  # complete requests that wait for a thread
HEALTH_PATHS = ("/healthz", "/livez", "/readyz")  # each has a thread of its own
TOO_BUSY = "the service has too many requests at the moment; try again in a moment"


class ConnectionWorker(Worker):  # type: ignore[misc]  # gunicorn has no types
    """Worker with one thread for all connections and a pool of threads for requests."""

    def run(self) -> None:
        """Serve until the worker is stopped, then let requests at work end."""
        self._prepare()
        next_check = 0.0
        while self.alive and self.ppid == os.getppid():
            self.notify()
            self.loop.step(min(TICK_SECONDS, self.acceptor.resume()))
            if time.monotonic() >= next_check:
                next_check = time.monotonic() + TICK_SECONDS
                self.loop.end_slow_requests()
                self.acceptor.adapt_to_file_limit()
        self.acceptor.stop()
        end = time.monotonic() + self.cfg.graceful_timeout
        while time.monotonic() < end and any(each.stage >= Stage.working for each in self.loop.table):
            self.notify()
            self.loop.step(SHUTDOWN_STEP_SECONDS)
            self.loop.end_slow_requests()
        for connection in self.loop.table:
            self.loop.close(connection)
        for pool in (self.pool, *self.health_pools.values()):
            pool.shutdown(wait=False)

    def _prepare(self) -> None:
        settings = self.app.settings
        certificate, key = settings.tls_certificate, settings.tls_key
        max_body: int = self.wsgi.config["MAX_CONTENT_LENGTH"]
        self.pool = ThreadPoolExecutor(self.cfg.threads)
        self.health_pools = {path: ThreadPoolExecutor(1) for path in HEALTH_PATHS}
        self.at_work = 0
        addresses = ClientAddresses(settings.trusted_proxies)
        self.loop = RequestLoop(
            ConnectionTable(addresses),
            MemoryLimits(addresses, max(settings.upload_memory_bytes, max_body), max_body),
            self.PIPE,
            self.log,
            config=self.cfg,
            max_body=max_body,
            request_seconds=settings.request_seconds,
            begin_work=self._begin_work,
        )
        tls = TlsContext(certificate, key) if certificate and key else None
        self.acceptor = Acceptor(self.sockets, tls, self.loop)

    def _begin_work(self, connection: ClientConnection) -> None:
        health_pool = self.health_pools.get(connection.request.path)
        if health_pool:
            health_pool.submit(self._work, connection, counted=False)
        elif self.at_work >= self.cfg.threads + MAX_BACKLOG:
            self.loop.answer(connection, problem_answer(HTTPStatus.TOO_MANY_REQUESTS, TOO_BUSY))
        else:
            self.at_work += 1
            self.pool.submit(self._work, connection, counted=True)

    def _work(self, connection: ClientConnection, counted: bool) -> None:
        """Answer a request, in a thread of a pool; `counted` if it is the large one."""
        keep_alive = False
        try:
            keep_alive = self._respond(connection)
        except OSError:
            pass  # the client has left, or was cut off
        except BaseException as error:
            self.log.error("unexpected error: %s", error_location(error))
            connection.answer_if_none(error_answer(error))
        finally:
            self.loop.call_soon(partial(self._end_work, connection, keep_alive, counted))

    def _end_work(self, connection: ClientConnection, keep_alive: bool, counted: bool) -> None:
        self.at_work -= counted
        self.loop.answer_work(connection, keep_alive)

    def _respond(self, connection: ClientConnection) -> bool:
        """Run the app; return True if the connection can be used again."""
        request = connection.request
        request._expected_100_continue = False  # was answered before the body came
        response, environ = wsgi.create(request, connection, connection.client, connection.server, self.cfg)
        environ["wsgi.multithread"] = True
        if not self.alive or connection.is_end_unknown:
            response.force_close()
        blocks = self.wsgi(environ, response.start_response)
        if isinstance(blocks, wsgi.FileWrapper):
            response.send_headers()
            connection.send_file(blocks.filelike)
            return not response.should_close()
        try:
            for block in blocks:
                response.write(block)
            response.close()
        finally:
            if hasattr(blocks, "close"):
                blocks.close()
        return not response.should_close()
