"""`cbir serve`, killed while clients add, delete and label images."""

import os
import random
import re
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import httpx
import psutil

from cbir.store import Collection
from cbir.store.records.originals import original_path
from reliability.forked import ForkedCommands
from reliability.ledger import LABEL, Step
from reliability.pictures import image_id, png
from reliability.target import Target

CLIENTS = 3
ADD_SHARE, DELETE_SHARE = 0.6, 0.2  # of the requests; the others set labels
LONGEST_SECONDS = 0.8  # from the first answer to the kill


@dataclass
class Addition:
    """A request to add images. key: its Idempotency-Key."""

    key: str
    files: list[bytes]
    step: Step


class Client(threading.Thread):
    """Sends requests about its own images until the service is gone.

    unanswered: the addition that it was killed in, which the next client repeats first. stopping: set to end it
    after the next answer.
    """

    def __init__(
        self, address: str, rng: random.Random, target: "ServeTarget", unanswered: Addition | None
    ) -> None:
        super().__init__(daemon=True)
        self.address, self.rng, self.target, self.unanswered = address, rng, target, unanswered
        self.ids: list[str] = []
        self.answers = 0
        self.errors: list[str] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        with suppress(httpx.TransportError), httpx.Client(base_url=self.address, timeout=60) as client:
            if self.unanswered:
                self.target.ledger.begin(self.unanswered.step)
                self.add(client, self.unanswered)
            while not self.errors and not self.stopping.is_set():
                choice = self.rng.random()
                if choice < ADD_SHARE or len(self.ids) < 2:
                    self.add(client, self.target.new_addition(self.rng))
                elif choice < ADD_SHARE + DELETE_SHARE:
                    self.delete(client, self.ids.pop(self.rng.randrange(len(self.ids))))
                else:
                    self.label(client, self.rng.choice(self.ids), str(self.rng.randrange(10**9)))

    def add(self, client: httpx.Client, addition: Addition) -> None:
        """Add images; `duplicates` would store them twice if the key did not prevent it."""
        if addition is not self.unanswered:
            self.target.ledger.begin(addition.step)
        self.unanswered = addition
        response = client.post(
            "/v1/images?duplicates=true",
            files=[("image", (f"{n}.png", data, "image/png")) for n, data in enumerate(addition.files)],
            data={"labels": f'{{"{LABEL}": "{addition.step.value}"}}'},
            headers={"Idempotency-Key": addition.key},
        )
        if self.answered(response, 201) and response.json()["ids"] != list(addition.step.ids):
            self.errors.append("an addition was answered with the ids of other images")
        self.target.ledger.acknowledge(addition.step)
        self.unanswered = None
        self.ids += addition.step.ids

    def delete(self, client: httpx.Client, image: str) -> None:
        """Delete an image."""
        with self.target.ledger.doing(Step("delete", (image,))):
            self.answered(client.delete(f"/v1/images/{image}"), 204)

    def label(self, client: httpx.Client, image: str, value: str) -> None:
        """Set the label of an image."""
        with self.target.ledger.doing(Step("label", (image,), value)):
            self.answered(client.patch(f"/v1/images/{image}", json={"labels": {LABEL: value}}), 200)

    def answered(self, response: httpx.Response, expected: int) -> bool:
        """Count an answer; one with another status ends the client as a disconnection does."""
        if response.status_code == expected:
            self.answers += 1
            return True
        if response.status_code not in (429, 503):
            self.errors.append(f"{response.request.method} was answered with {response.status_code}")
        raise httpx.TransportError("not acknowledged")


class ServeTarget(Target):
    """Clients of a service on a free port, and kills of the worker, of its parent, or of all processes."""

    name = "serve"

    def start_again(self) -> None:
        """Forget also what the last service did not answer."""
        self.unanswered: list[Addition] = []
        self.errors: list[str] = []
        super().start_again()

    def new_addition(self, rng: random.Random) -> Addition:
        """Return a request with one to three new images."""
        files = [png(next(self.numbers)) for _ in range(rng.randint(1, 3))]
        step = Step("add", tuple(image_id(data) for data in files), str(rng.randrange(10**9)))
        return Addition(f"key-{rng.getrandbits(64):x}", files, step)

    def work(self, rng: random.Random) -> None:
        """Serve, and kill the service soon after the first answers; some are killed while they start."""
        command = ["serve", "--collection", str(self.collection), "--port", "0"]
        settings = {"state_folder": self.folder / "state", "keep_originals": "true", "decoders": "1"}
        environment = {f"CBIR_{name.upper()}": str(value) for name, value in settings.items()}
        with ForkedCommands([command], environment) as service:
            if rng.random() < 0.05:
                time.sleep(rng.uniform(0, 1))
                return
            match = re.search(r"The page: (\S+?)/?\n", service.read_until("Ctrl-C"))
            if match is None:
                raise RuntimeError(f"the service does not start: {service.kill()[-500:]}")
            repeated = [*self.unanswered, *[None] * CLIENTS][:CLIENTS]
            clients = [
                Client(match.group(1), random.Random(rng.random()), self, addition) for addition in repeated
            ]
            for client in clients:
                client.start()
            until = time.monotonic() + 60
            while not any(client.answers for client in clients):
                if time.monotonic() > until or not any(client.is_alive() for client in clients):
                    break
                time.sleep(0.005)
            time.sleep(rng.uniform(0, LONGEST_SECONDS))
            self.killed = any(client.answers for client in clients) and service.process.is_alive()
            kill_some(service, rng)
            service.kill()
            for client in clients:
                client.join(90)
        self.unanswered = [client.unanswered for client in clients if client.unanswered]
        self.errors = [error for client in clients for error in client.errors]
        if not any(client.answers for client in clients):
            self.errors.append("the service answered no request")

    def check(self, rng: random.Random) -> list[str]:
        """Every image that was sent has its original."""
        errors, self.errors = self.errors, []
        with Collection(self.collection) as opened:
            paths = [original_path(self.collection, record.source) for _, record in opened.iterate()]
        missing = sum(path is not None and not path.is_file() for path in paths)
        return [*errors, *([f"{missing} originals are missing"] if missing else [])]


def kill_some(service: ForkedCommands, rng: random.Random) -> None:
    """Kill the worker or its parent alone, in some cases, and let the others go on for a moment."""
    victim = rng.choice(["all", "all", "parent", "worker"])
    if victim == "all":
        return
    number = service.group
    if victim == "worker":
        children = psutil.Process(service.group).children()
        number = rng.choice(children).pid if children else number
    with suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)
    time.sleep(rng.uniform(0, 0.1))
