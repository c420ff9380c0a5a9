"""Relay of TCP connections: run in a network namespace with a listening socket of the machine as file 0."""

import asyncio
import socket
import sys

READ = 1 << 18  # bytes


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what arrives until either end closes."""
    try:
        while content := await reader.read(READ):
            writer.write(content)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def relay(port: int) -> None:
    """Connect everyone who connects to the socket to `port` of this namespace."""

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, requests = await asyncio.open_connection("127.0.0.1", port, limit=READ)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, requests), copy(answers, writer))

    server = await asyncio.start_server(connect, sock=socket.socket(fileno=0), limit=READ)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(relay(int(sys.argv[1])))
