"""`cbir receive`, killed while senders store instances."""

import random
import re
import threading
import time

from pynetdicom import AE

from reliability.forked import ForkedCommands
from reliability.ledger import Step
from reliability.pictures import dicom, image_id, instance
from reliability.target import Target

SENDERS = 2
LONGEST_SECONDS = 0.8  # from the first answer to the kill
SUCCESS = 0x0000


class Sender(threading.Thread):
    """Stores instances until the receiver is gone.

    unanswered: number of the instance without an answer, which the next sender repeats first.
    """

    def __init__(self, port: int, target: "ReceiveTarget", unanswered: int | None) -> None:
        super().__init__(daemon=True)
        self.port, self.target, self.unanswered = port, target, unanswered
        self.answers = 0
        self.errors: list[str] = []

    def run(self) -> None:
        entity = AE("SENDER")
        entity.acse_timeout = entity.dimse_timeout = entity.network_timeout = 60
        first = instance(0)
        entity.add_requested_context(first.SOPClassUID, first.file_meta.TransferSyntaxUID)
        association = entity.associate("127.0.0.1", self.port, ae_title="CBIR")
        while association.is_established:
            number = next(self.target.numbers) if self.unanswered is None else self.unanswered
            self.unanswered = number
            step = Step("add", (image_id(dicom(number)),))
            self.target.ledger.begin(step)
            try:
                status = association.send_c_store(instance(number))
            except (RuntimeError, ValueError):  # the receiver was killed before the request
                break
            if "Status" not in status:
                break
            if status.Status != SUCCESS:
                self.errors.append(f"an instance was answered with {status.Status:04x}")
                break
            self.target.ledger.acknowledge(step)
            self.answers += 1
            self.unanswered = None
        if association.is_established:
            association.abort()


class ReceiveTarget(Target):
    """Senders that repeat what was not answered, as archives do."""

    name = "receive"

    def start_again(self) -> None:
        """Forget also what the last receiver did not answer."""
        self.unanswered: list[int] = []
        self.errors: list[str] = []
        super().start_again()

    def work(self, rng: random.Random) -> None:
        """Receive, and kill the receiver soon after the first answers; some are killed while they start."""
        command = ["receive", "--collection", str(self.collection), "--port", "0", "--jobs", "1"]
        with ForkedCommands([command]) as receiver:
            if rng.random() < 0.05:
                time.sleep(rng.uniform(0, 1))
                return
            match = re.search(r"port (\d+)\n", receiver.read_until("receiving as"))
            if match is None:
                raise RuntimeError(f"the receiver does not start: {receiver.kill()[-500:]}")
            repeated = [*self.unanswered, *[None] * SENDERS][:SENDERS]
            senders = [Sender(int(match.group(1)), self, number) for number in repeated]
            for sender in senders:
                sender.start()
            until = time.monotonic() + 60
            while not any(sender.answers for sender in senders):
                if time.monotonic() > until or not any(sender.is_alive() for sender in senders):
                    break
                time.sleep(0.005)
            time.sleep(rng.uniform(0, LONGEST_SECONDS))
            self.killed = any(sender.answers for sender in senders) and receiver.process.is_alive()
            receiver.kill()
            for sender in senders:
                sender.join(90)
        self.unanswered = [sender.unanswered for sender in senders if sender.unanswered is not None]
        self.errors = [error for sender in senders for error in sender.errors]
        if not any(sender.answers for sender in senders):
            self.errors.append("the receiver stored no instance")

    def check(self, rng: random.Random) -> list[str]:
        """Every image that was received has its thumbnail, and no instance is there twice."""
        errors, self.errors = self.errors, []
        return errors
