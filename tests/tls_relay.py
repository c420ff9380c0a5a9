"""Relay with TLS in front of a server on loopback, in a thread: takes the TLS off, as a proxy does."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.relay import READ, copy


@contextmanager
def tls_relay(port: int, certificate: Path, key: Path) -> Iterator[int]:
    """Yield the port on 127.0.0.1 that leads to `port` there, for HTTP/2 over TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])
    loop, ports, listening = asyncio.new_event_loop(), list[int](), threading.Event()
    ended = asyncio.Event()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection("127.0.0.1", port, limit=READ)
        try:
            with suppress(asyncio.CancelledError):  # at the end
                await asyncio.gather(copy(reader, requests), copy(answers, writer))
        finally:
            for end in (writer, requests):
                end.transport.abort()

    async def relay() -> None:
        async with await asyncio.start_server(connect, "127.0.0.1", 0, ssl=context, limit=READ) as server:
            ports.append(server.sockets[0].getsockname()[1])
            listening.set()
            await ended.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0.1)  # in which the connections are closed

    thread = threading.Thread(target=lambda: loop.run_until_complete(relay()))
    thread.start()
    try:
        assert listening.wait(60)
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()
