"""gunicorn with one worker process of many threads, on systems with fork.

The worker reads requests in its main thread and hands complete ones to threads. A slow or silent client occupies a
socket and some memory, but no thread. The main thread accepts connections, makes TLS handshakes, receives requests
with their bodies and sends what is left of answers, all without blocking; a thread of the pool runs the app on a
complete request. gunicorn's parser and its WSGI environment are used as they are.
"""

import logging
import os
import signal
import socket
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.http import wsgi
from gunicorn.workers.base import Worker

from cbir.settings import Settings
from service.collections.app_state import EXTENSION
from service.http.problems import error_location
from service.jobs.job_worker import JobWorker
from service.server.acceptor import Acceptor, TlsContext
from service.server.client_connection import ClientConnection, Stage
from service.server.connection_table import ClientAddresses, ConnectionTable, MemoryLimits
from service.server.request_loop import RequestLoop, error_answer, problem_answer
from service.server.server_sizes import KEEPALIVE_SECONDS, count_threads

TICK_SECONDS = 0.5  # interval of the checks of all connections
SHUTDOWN_STEP_SECONDS = 0.1
MAX_BACKLOG = 128  # complete requests that wait for a thread
HEALTH_PATHS = ("/healthz", "/livez", "/readyz")  # each has a thread of its own
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
TOO_BUSY = "the service has too many requests at the moment; try again in a moment"


class ServiceWorker(Worker):  # type: ignore[misc]  # gunicorn has no types
    """Worker with one thread for all connections and a pool of threads for requests.

    It hands its jobs back when it ends, and exits at once on Ctrl-C.
    """

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

    def init_signals(self) -> None:
        """Set the handlers, and let the signals in that `HoldingArbiter` holds."""
        super().init_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """End after the requests at work; jobs end meanwhile."""
        super().handle_exit(sig, frame)
        if worker := self._job_worker():
            worker.begin_stop()

    def handle_quit(self, sig: int, frame: Any) -> None:
        """End without waiting for requests."""
        for number in (signal.SIGINT, signal.SIGQUIT):  # the arbiter sends another one
            signal.signal(number, signal.SIG_IGN)
        worker = self._job_worker()
        if worker and worker.is_running_jobs:
            worker.stop()
        # At once: an orderly exit takes locks that the interrupted thread may hold.
        os._exit(0)

    def _job_worker(self) -> JobWorker | None:
        app: Flask | None = getattr(self, "wsgi", None)  # not there before the app is made
        return app.extensions[EXTENSION].worker if app else None


class HoldingArbiter(Arbiter):  # type: ignore[misc]
    """Parent of the worker. Until a new worker has its own handlers, signals wait: those of its parent lose them."""

    def spawn_worker(self) -> int:
        """Fork the worker; return its number to the parent."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        try:
            number: int = super().spawn_worker()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return number


class GunicornServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn application that serves an app until it is stopped.

    Parameters
    ----------
    make_app : callable
        Creates the app; called in the worker, since neither BLAS nor SQLite survives a fork.
    settings : Settings
        Settings of the service.
    listener : socket
        Listening socket; the server takes it over.
    ready : callable
        Called when the server accepts requests.
    """

    def __init__(
        self,
        make_app: Callable[[], Flask],
        settings: Settings,
        listener: socket.socket,
        ready: Callable[[], None],
    ) -> None:
        self.make_app, self.settings, self.listener, self.ready = make_app, settings, listener, ready
        super().__init__()

    def load_config(self) -> None:
        certificate, key = self.settings.tls_certificate, self.settings.tls_key
        options: dict[str, Any] = {
            "bind": f"fd://{self.listener.detach()}",
            "workers": 1,
            "worker_class": ServiceWorker,
            "threads": count_threads(self.settings),
            "keepalive": KEEPALIVE_SECONDS,
            "timeout": 0,  # a worker that opens a large collection does not hang
            "graceful_timeout": 5,
            "loglevel": "warning",
            "post_worker_init": lambda worker: self.ready() if worker.age == 1 else None,
            "control_socket_disable": True,
            "forwarded_allow_ips": "",  # service/access/proxies.py decides which proxies to trust
            "certfile": certificate and str(certificate),
            "keyfile": key and str(key),
        }
        for name, value in options.items():
            if name in self.cfg.settings:  # older gunicorn versions have no control socket
                self.cfg.set(name, value)

    def run(self) -> None:
        """Serve until it is stopped."""
        HoldingArbiter(self).run()

    def load(self) -> Flask:
        """Create the app, without the texts of libraries in its log, which quote headers of patients."""
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
        warnings.simplefilter("ignore")
        return self.make_app()
