"""A cluster with a vector index: two services and two workers that go on while one of the parts is killed."""

import random
import secrets
import shutil
import time
from pathlib import Path

from sqlalchemy import create_engine, text

from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.records.records import hash_patient
from reliability.cluster_parts import Part, Service, Worker
from reliability.forked import ForkedCommands
from reliability.index_check import answer_problems, wait_until_followed
from reliability.job_client import Jobs
from reliability.ledger import Step
from reliability.pictures import PATIENTS, PictureFolder
from reliability.postgresql_target import LONGEST_SECONDS, PostgresqlTarget
from reliability.serve_target import Client
from reliability.target import exit_codes
from tests.milvus_server import MilvusServer

VICTIMS = ("server", "index", "index", "service", "both services", "worker", "command", "all")
COMMAND_SECONDS = 90.0  # after which a command that the others outlive is killed


class ClusterTarget(PostgresqlTarget):
    """Clients of two services, jobs for two workers, and a row of commands that delete, erase and compact.

    One part of a round is killed, the others go on. It is started again, and collection, index, jobs and answers are
    compared with what was acknowledged.
    """

    index: str  # setting
    victims: tuple[str, ...] = VICTIMS

    def __init__(self, folder: Path, base: Path, pictures: PictureFolder) -> None:
        self.parts: list[Part] = []
        super().__init__(folder, base, pictures)

    def start_again(self) -> None:
        """Begin with a copy of the base collection in a new schema, and new services."""
        self.stop_parts()
        super().start_again()
        state = self.folder / "state"
        shutil.rmtree(state, ignore_errors=True)
        archive = self.folder / "archive"
        settings = {
            "state_folder": state,
            "state_database": f"{self.server.url}&schema=state_{secrets.token_hex(4)}",
            "keep_originals": "true",
            "decoders": "1",
            "job_workers": "0",
            "index_roots": archive,
            "index": self.index,
            "indexed_candidates": "10",  # fewer than images, so that searches use the index
            "indexed_sample": "10",
        }
        environment = {f"CBIR_{name.upper()}": str(value) for name, value in settings.items()}
        self.environment = self.files | environment
        self.services = [Service(self.address, self.environment) for _ in range(2)]
        self.workers = [Worker(self.address, self.environment) for _ in range(2)]
        self.parts = [*self.services, *self.workers]
        self.jobs = Jobs(archive, self.ledger, self.numbers)
        self.patients = [f"patient-{number}" for number in range(PATIENTS)]

    def stop_parts(self) -> None:
        """Kill services and workers."""
        for part in self.parts:
            part.kill()

    def close(self) -> None:
        """Stop everything."""
        self.stop_parts()
        super().close()

    def work(self, rng: random.Random) -> None:
        """Let clients, jobs and a command work, and kill the victim of this round."""
        self.start_parts()
        addresses = [service.address for service in self.services]
        victim = rng.choice(self.victims)
        self.errors = []
        commands, steps = self.commands(rng)
        clients = [
            Client(address, random.Random(rng.random()), self, addition)
            for address, addition in zip(addresses, [*self.unanswered, None, None], strict=False)
        ]
        for client in clients:
            client.start()
        job = self.jobs.request(addresses)
        for step in steps:
            self.ledger.begin(step)
        with ForkedCommands(commands, self.environment) as command:
            until = time.monotonic() + 60
            while not any(client.answers for client in clients) and time.monotonic() < until:
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 3 * LONGEST_SECONDS))
            self.killed = any(client.answers for client in clients)
            self.kill_part(victim, command)
            time.sleep(rng.uniform(0, LONGEST_SECONDS))
            for client in clients:
                client.stopping.set()
            self.revive(victim)
            self.book(steps, exit_codes(self.end_of(command, victim)))
        for client in clients:
            client.join(90)
        self.unanswered = [client.unanswered for client in clients if client.unanswered]
        self.errors += [error for client in clients for error in client.errors]
        if not any(client.answers for client in clients):
            self.errors.append("the services answered no request")
        self.start_parts()
        self.wait_for_transactions()
        self.errors += self.jobs.finish(job, [service.address for service in self.services])

    def start_parts(self) -> None:
        """Start what does not run, and wait until services and workers have all they need."""
        for part in self.parts:
            part.start()
        for part in self.parts:
            part.wait()
        for service in self.services:
            service.wait_until_well()

    def commands(self, rng: random.Random) -> tuple[list[list[str]], list[Step]]:
        """Return commands that delete images of the base, erase a patient and compact, and the steps of the first."""
        commands, steps = super().commands(rng)
        if self.patients and rng.random() < 0.4:
            patient = self.patients.pop()
            with Collection(self.collection) as opened:
                key = hash_patient(opened.secret, patient)
                images = {record.image_id for _, record in opened.iterate() if record.patient_key == key}
            ids = images - {image_id for step in steps for image_id in step.ids}
            if ids:
                folder = ["--collection", self.address]
                commands.insert(len(steps), ["collection", "erase-patient", "--yes", patient, *folder])
                steps.append(Step("erase", tuple(sorted(ids))))
        return commands, steps

    def kill_part(self, victim: str, command: ForkedCommands) -> None:
        """Kill the victim of a round."""
        if victim in ("server", "all"):
            self.server.kill()
        if victim in ("index", "all"):
            self.kill_index()
        chosen = {"service": self.services[:1], "both services": self.services, "worker": self.workers[:1]}
        for part in self.parts if victim == "all" else chosen.get(victim, []):
            part.kill()
        if victim in ("command", "all"):
            command.kill()

    def revive(self, victim: str) -> None:
        """Start servers that were killed."""
        if victim in ("server", "all"):
            self.server.start()
        if victim in ("index", "all"):
            self.start_index()

    def kill_index(self) -> None:
        """Kill the server of the index, if it has one."""

    def start_index(self) -> None:
        """Start the server of the index again."""

    def end_of(self, command: ForkedCommands, victim: str) -> str:
        """Wait for the end of commands that were not killed; return what they have printed."""
        if victim not in ("command", "all"):
            try:
                command.read_until("no such line", COMMAND_SECONDS)
            except TimeoutError:
                self.errors.append("a command has not ended")
        return command.kill()

    def check(self, rng: random.Random) -> list[str]:
        """Index and answers agree with the collection, and every image that was sent has its original."""
        problems = super().check(rng)
        wrong, seconds = wait_until_followed(self.collection, Settings(index=self.index))
        self.figures = {"followed_seconds": round(seconds, 2), "attempts": self.jobs.attempts}
        addresses = [service.address for service in self.services]
        return [*problems, *wrong, *answer_problems(addresses, set(self.ledger.labels), self.ledger.gone)]


class PgvectorTarget(ClusterTarget):
    """The index is in PostgreSQL."""

    name = "pgvector"
    index = "pgvector"
    victims = tuple(victim for victim in VICTIMS if victim != "index")

    def __init__(self, folder: Path, base: Path, pictures: PictureFolder) -> None:
        self.prepared = False
        super().__init__(folder, base, pictures)

    def start_again(self) -> None:
        """Install the extension before the first collection."""
        if not self.prepared:
            engine = create_engine(self.server.url)
            with engine.begin() as connection:
                connection.execute(text("CREATE EXTENSION vector"))
            engine.dispose()
            self.prepared = True
        super().start_again()


class MilvusTarget(ClusterTarget):
    """The index is in Milvus, which is killed too."""

    name = "milvus"

    def __init__(self, folder: Path, base: Path, pictures: PictureFolder) -> None:
        self.milvus = MilvusServer()
        self.index = self.milvus.address
        super().__init__(folder, base, pictures)

    def start_parts(self) -> None:
        """Start Milvus too if it has ended by itself, as an orchestrator does."""
        if not self.milvus.runs:
            self.milvus.start()
        super().start_parts()

    def kill_index(self) -> None:
        self.milvus.kill()

    def start_index(self) -> None:
        self.milvus.start()

    def close(self) -> None:
        """Stop Milvus too."""
        super().close()
        self.milvus.stop()
