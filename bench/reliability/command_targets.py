"""Commands that work on a collection as it is: compact, delete, backup, erase-patient."""

import random
import time

from cbir.store import Collection
from cbir.store.erasure import find_traces
from cbir.store.records.records import hash_patient
from cbir.store.safety.last_good import NAME
from reliability.forked import ForkedCommands
from reliability.ledger import Step
from reliability.pictures import PATIENTS
from reliability.target import Target, exit_codes, run_to_end


class CompactTarget(Target):
    """`cbir collection compact` and `delete` in turn; then some are added again with other files."""

    name = "compact"

    def work(self, rng: random.Random) -> None:
        """Kill a row of deletions and compactions."""
        if len(self.ledger.labels) < 8:
            self.start_again()
        chosen = rng.sample(sorted(self.ledger.labels), 6)
        steps = [Step("delete", tuple(chosen[first:end])) for first, end in ((0, 1), (1, 3), (3, 6))]
        folder = ["--collection", str(self.collection)]
        commands = []
        for step in steps:
            refit = ["--refit"] if rng.random() < 0.3 else []
            commands += [
                ["collection", "delete", "--yes", *step.ids, *folder],
                ["collection", "compact", *refit, *folder],
            ]
        seconds = rng.uniform(0, 0.7)
        for step in steps:
            self.ledger.begin(step)
        with ForkedCommands(commands) as running:
            time.sleep(seconds)
            codes = exit_codes(self.kill(running))
        for step, _ in zip(steps, codes[::2], strict=False):
            self.ledger.acknowledge(step)
        self.codes = codes

    def check(self, rng: random.Random) -> list[str]:
        """The commands succeed, and the last good copy shows no image that was deleted."""
        problems = [f"a command ended with {code}" for code in self.codes if code]
        copy = self.collection / NAME
        if Collection.exists(copy):
            with Collection(copy) as opened:
                shown = {record.image_id for _, record in opened.iterate()}
            if shown & self.ledger.gone:
                problems.append(f"the last good copy shows {len(shown & self.ledger.gone)} deleted images")
        return problems


class EraseTarget(Target):
    """`cbir collection erase-patient`: half an erasure is completed by the same command."""

    name = "erase"

    def start_again(self) -> None:
        """Begin with every patient."""
        super().start_again()
        self.patients = [f"patient-{number}" for number in range(PATIENTS)]

    def work(self, rng: random.Random) -> None:
        """Kill the erasure of one patient, some of whose images were deleted before."""
        if not self.patients:
            self.start_again()
        self.patient = self.patients.pop()
        with Collection(self.collection) as opened:
            key = hash_patient(opened.secret, self.patient)
            ids = tuple(record.image_id for _, record in opened.iterate() if record.patient_key == key)
        folder = ["--collection", str(self.collection)]
        commands = [["collection", "erase-patient", "--yes", self.patient, *folder]]
        if rng.random() < 0.5:
            if run_to_end([["collection", "delete", "--yes", ids[0], *folder]]) != [0]:
                raise RuntimeError("an image cannot be deleted")
            self.ledger.labels.pop(ids[0])
            self.ledger.gone.add(ids[0])
            ids = ids[1:]
        self.ids = ids
        step = Step("erase", ids)
        self.ledger.begin(step)
        with ForkedCommands(commands) as running:
            time.sleep(rng.uniform(0, 0.4))
            self.codes = exit_codes(self.kill(running))
        if self.codes == [0]:
            self.ledger.acknowledge(step)

    def check(self, rng: random.Random) -> list[str]:
        """No trace is left of an erased patient: at once if that was acknowledged, else after erasing again."""
        problems = [f"the erasure ended with {code}" for code in self.codes if code]
        folder = ["--collection", str(self.collection)]
        if not self.codes:
            codes = run_to_end([["collection", "erase-patient", "--yes", self.patient, *folder]])
            if codes not in ([0], [1]):  # 1: the images were gone
                problems.append(f"erasing again ended with {codes}")
        with Collection(self.collection) as opened, opened.writer():
            key = hash_patient(opened.secret, self.patient)
            remaining = [record for _, record in opened.iterate() if record.patient_key == key]
            problems += find_traces(opened, [key] if key else [])
        if remaining:
            problems.append(f"{len(remaining)} images of an erased patient remain")
        self.ledger.begin(Step("erase", self.ids))
        return problems + self.ledger.settle(self.collection)
