"""A collection in PostgreSQL that two services and a command write to at once, killed with or without the server."""

import os
import random
import re
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from cbir.store import Collection
from cbir.store.collection_address import collection_folder
from cbir.store.records.originals import original_path
from cbir.store.upkeep.collection_copy import copy_collection
from reliability.forked import ForkedCommands
from reliability.ledger import Step
from reliability.pictures import PictureFolder
from reliability.serve_target import CLIENTS, Client, ServeTarget
from reliability.target import exit_codes
from tests.postgresql_server import PostgresqlServer

LONGEST_SECONDS = 1.0  # from the first answer to the first kill
VICTIMS = ("server", "server", "service", "service", "both services", "command", "all")


class PostgresqlTarget(ServeTarget):
    """Clients of two services, and a row of commands that delete and compact.

    The victim of a round is killed first, and the others go on for a moment before they are killed too. A server that
    was killed is started again, and the collection compared with what was acknowledged.
    """

    name = "postgresql"

    def __init__(self, folder: Path, base: Path, pictures: PictureFolder) -> None:
        self.server = PostgresqlServer()
        self.files = {
            "CBIR_COLLECTION_FILES": str(folder / "files")
        }  # forked commands have no later variables
        os.environ.update(self.files)
        super().__init__(folder, base, pictures)

    def close(self) -> None:
        """Stop the server and remove its files."""
        self.server.stop()

    def start_again(self) -> None:
        """Begin with a copy of the base collection in a new schema."""
        self.unanswered, self.errors = [], []
        self.address = f"{self.server.url}&collection=kills_{secrets.token_hex(4)}"
        self.collection = collection_folder(self.address)
        with Collection(self.base) as base:
            copy_collection(base, self.collection, lambda stage, done, total: None)
        self.ledger.labels = {
            self.pictures.id_of(name): self.pictures.values[name] for name in self.pictures.numbers
        }
        self.ledger.gone = set()

    def work(self, rng: random.Random) -> None:
        """Let services and a command work, and kill the victim of this round before the others."""
        victim = rng.choice(VICTIMS)
        commands, steps = self.commands(rng)
        with ExitStack() as stack:
            services = [stack.enter_context(self.serving()) for _ in range(2)]
            addresses = [self.address_of(service) for service in services]
            repeated = [*self.unanswered, *[None] * 2 * CLIENTS][: 2 * CLIENTS]
            rng.shuffle(repeated)
            clients = [
                Client(addresses[number % 2], random.Random(rng.random()), self, addition)
                for number, addition in enumerate(repeated)
            ]
            for client in clients:
                client.start()
            for step in steps:
                self.ledger.begin(step)
            command = stack.enter_context(ForkedCommands(commands, self.files))
            until = time.monotonic() + 60
            while not any(client.answers for client in clients) and time.monotonic() < until:
                time.sleep(0.005)
            time.sleep(rng.uniform(0, LONGEST_SECONDS))
            self.killed = any(client.answers for client in clients)
            self.kill_victim(victim, services, command, rng)
            self.book(steps, exit_codes(command.kill()))
            for service in services:
                service.kill()
            for client in clients:
                client.join(90)
        if victim in ("server", "all"):
            self.server.start()
        self.wait_for_transactions()
        self.unanswered = [client.unanswered for client in clients if client.unanswered]
        self.errors = [error for client in clients for error in client.errors]
        if not any(client.answers for client in clients):
            self.errors.append("the services answered no request")

    def commands(self, rng: random.Random) -> tuple[list[list[str]], list[Step]]:
        """Return commands that delete images of the base and compact, and the steps of the deletions."""
        folder = ["--collection", self.address]
        ids = sorted(
            self.ledger.labels.keys() & {self.pictures.id_of(name) for name in self.pictures.numbers}
        )
        commands: list[list[str]] = []
        steps: list[Step] = []
        if len(ids) < 6:
            return [["collection", "compact", *folder]], []
        chosen = rng.sample(ids, 3)
        for step in (Step("delete", (chosen[0],)), Step("delete", tuple(chosen[1:]))):
            commands.append(["collection", "delete", "--yes", *step.ids, *folder])
            steps.append(step)
        return [*commands, ["collection", "compact", *folder]], steps

    def book(self, steps: list[Step], codes: list[int]) -> None:
        """Acknowledge the steps of commands that came to their end."""
        for step, code in zip(steps, codes, strict=False):
            if code == 0:
                self.ledger.acknowledge(step)

    @contextmanager
    def serving(self) -> Iterator[ForkedCommands]:
        """Run a service of the collection."""
        settings = {"state_folder": self.folder / "state", "keep_originals": "true", "decoders": "1"}
        environment = {f"CBIR_{name.upper()}": str(value) for name, value in settings.items()}
        command = ["serve", "--collection", self.address, "--port", "0"]
        with ForkedCommands([command], self.files | environment) as service:
            yield service

    @staticmethod
    def address_of(service: ForkedCommands) -> str:
        """Wait until a service is ready, and return its address."""
        match = re.search(r"The page: (\S+?)/?\n", service.read_until("Ctrl-C"))
        if match is None:
            raise RuntimeError(f"the service does not start: {service.kill()[-500:]}")
        return match.group(1)

    def kill_victim(
        self, victim: str, services: list[ForkedCommands], command: ForkedCommands, rng: random.Random
    ) -> None:
        """Kill the first victim of a round, and let the others go on for a moment."""
        if victim in ("server", "all"):
            self.server.kill()
        groups = {"service": services[:1], "both services": services, "command": [command]}.get(victim, [])
        for forked in groups:
            with suppress(ProcessLookupError):
                os.killpg(forked.group, signal.SIGKILL)
        if victim != "all":
            time.sleep(rng.uniform(0, 0.5))

    def wait_for_transactions(self) -> None:
        """Wait until no transaction of a killed process can be committed any more: all of them hold a lock."""
        with Collection(self.collection) as opened, opened._engine.begin():
            pass

    def check(self, rng: random.Random) -> list[str]:
        """Every image that was sent has its original."""
        errors, self.errors = self.errors, []
        with Collection(self.collection) as opened:
            paths = [original_path(self.collection, record.source) for _, record in opened.iterate()]
        missing = sum(path is not None and not path.is_file() for path in paths)
        return [*errors, *([f"{missing} originals are missing"] if missing else [])]
