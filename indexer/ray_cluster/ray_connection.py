"""Connect to a Ray cluster, or make one on this machine."""

import logging
import os
import secrets
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

from cbir.errors import ClusterFailed, InvalidInput
from cbir.system.threads import cores

LOCAL = "local"  # a cluster of one node, made on the spot
AUTO = "auto"
CLIENT = "ray://"
CLIENT_PORT = 10001
ANSWER_SECONDS = 5.0  # for the head to accept a connection
STORE_BYTES = 512 * 2**20  # of the object store of a local cluster
LOCAL_STARTS = 3  # a node gives up when its agents need more than 15 seconds to start, as on a busy machine
_token = cache(partial(secrets.token_hex, 32))  # of local clusters; Ray reads it once a process


@contextmanager
def connect_ray(address: str, jobs: int | None) -> Iterator[None]:
    """Connect to the cluster at an address while the context lasts.

    Parameters
    ----------
    address : str
        "local", "auto" (the cluster that runs on this machine), "HOST:PORT" or "ray://HOST:PORT".
    jobs : int or None
        CPUs of a local cluster; None: the number of cores.

    Raises
    ------
    InvalidInput, ClusterFailed
        If this is no address, or no cluster answers there.
    """
    check_address(address)
    with tempfile.TemporaryDirectory(prefix="cbir-ray-") as folder, _restored_process():
        options = _local_options(folder, jobs) if address == LOCAL else {"address": address}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # else it writes to our stderr
        import ray

        if ray.is_initialized():
            raise InvalidInput("this process uses Ray already; call ray.shutdown() before")
        with _replaced_functions():
            try:
                options |= {"log_to_driver": False, "logging_level": logging.CRITICAL, "namespace": "cbir"}
                with _silent_stderr():
                    init_cluster(partial(ray.init, **options), LOCAL_STARTS if address == LOCAL else 1)
            except Exception as error:  # Ray raises anything, in several lines
                raise ClusterFailed(_init_message(address, error)) from None
            _end_in_order_at_sigterm()
            try:
                yield
            finally:
                ray.shutdown()


def init_cluster(init: Callable[[], object], tries: int) -> None:
    """Call `init` until it raises nothing, at most `tries` times."""
    for _ in range(tries - 1):
        with suppress(Exception):  # Ray raises anything
            init()
            return
    init()


def check_address(address: str) -> None:
    """Raise InvalidInput for what is no address of a cluster, ClusterFailed if nothing listens there."""
    if address in (LOCAL, AUTO):
        return
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    is_client = address.startswith(CLIENT)
    if not host or not (port or is_client) or ("://" in address and not is_client) or parts.path.strip("/"):
        raise InvalidInput(
            f"--ray {address}: write auto, local, HOST:PORT (of the head, usually 6379) or ray://HOST:{CLIENT_PORT}"
        )
    try:
        socket.create_connection((host, port or CLIENT_PORT), ANSWER_SECONDS).close()
    except OSError as error:
        raise ClusterFailed(
            f"no Ray cluster answers at {address}: {error.strerror or error}; start one with `ray start --head`"
        ) from None


@contextmanager
def _restored_process() -> Iterator[None]:
    """Undo at the end what this module and Ray change in a process that may use Ray for itself."""
    environment, handler = dict(os.environ), signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        for name in {*os.environ, *environment}:
            if name.startswith("RAY_") and os.environ.get(name) != environment.get(name):
                os.environ.pop(name, None)
                os.environ |= {name: environment[name]} if name in environment else {}
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _end_in_order_at_sigterm() -> None:
    """End as after Ctrl-C: Ray would print a stack, and abort."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@contextmanager
def _replaced_functions() -> Iterator[None]:
    """Replace two functions of Ray for which it has no setting."""
    from ray._private import utils, worker

    functions = worker.print_to_stdstream, utils.get_entrypoint_name
    worker.print_to_stdstream = lambda *_, **__: None  # prints among our JSON that a node was lost
    utils.get_entrypoint_name = lambda: "cbir"  # the head keeps our command line, with folders and passwords
    try:
        yield
    finally:
        worker.print_to_stdstream, utils.get_entrypoint_name = functions


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Drop what Ray writes to stderr while it starts, for instance that it has a log level."""
    with open(os.devnull, "wb") as null:
        stderr = os.dup(2)
        os.dup2(null.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def _local_options(folder: str, jobs: int | None) -> dict[str, Any]:
    """Return the options of a cluster that listens on loopback only, and needs a token of its own."""
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else it binds the first address of the network
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _token()}
    return {
        "address": LOCAL,
        "num_cpus": jobs or cores(),
        "include_dashboard": False,
        "object_store_memory": STORE_BYTES,
        "_node_ip_address": "127.0.0.1",
        "_temp_dir": folder,  # its logs go with it
    }


def _init_message(address: str, error: Exception) -> str:
    text = " ".join(str(error).split())
    if "ersion mismatch" in text:
        import platform

        import ray

        return (
            f"the Ray cluster at {address} has another version of Ray or Python than this machine "
            f"(Ray {ray.__version__}, Python {platform.python_version()}); install the same everywhere"
        )
    if address == AUTO and isinstance(error, ConnectionError):
        return "no Ray cluster runs on this machine; start one with `ray start --head`, or use --ray local"
    if address == LOCAL and "uthentication" in text:
        return "--ray local needs a process that has used no other cluster before; start another"
    if "uthentication" in text or "token" in text:
        return f"the Ray cluster at {address} refuses the token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN as there"
    return (
        f"the Ray cluster at {address} cannot be used ({type(error).__name__}); `ray status` says how it is"
    )
