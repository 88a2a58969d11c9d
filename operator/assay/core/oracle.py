"""The oracle of a task: what decides the reward, and the runs that show that it can tell right from wrong."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from assay.api.attempt_record import AttemptRecord
from assay.api.ledgerfile import OracleProof, TaskImages
from assay.core.archive import Entry, Kind
from assay.core.canonical import digest_of_bytes

SOLUTION_RUNS = 3
"""How often the reference solution must have scored 1."""
_AGENTS = ("oracle", "nop")
_CHUNK = 1 << 20


def oracle_digest(entries: Iterable[Entry]) -> str:
    """Digest over the files that decide the reward: `tests/`, of the task and of its steps."""
    outer = hashlib.sha256()
    for entry in sorted(entries, key=lambda one: one.path):
        parts = entry.path.split("/")
        if entry.kind is Kind.FILE and (
            parts[0] == "tests" or (parts[0] == "steps" and "tests" in parts[2:3])
        ):
            digest = hashlib.sha256()
            with entry.open() as content:
                while chunk := content.read(_CHUNK):
                    digest.update(chunk)
            outer.update(f"{entry.path}\0{digest.hexdigest()}\n".encode())
    return f"sha256:{outer.hexdigest()}"


class OracleRunsError(Exception):
    """The oracle runs cannot be used; the message names the line."""


@dataclass(frozen=True, slots=True)
class ProvedTask:
    """What runs must have been of, to prove anything of a task."""

    id: str
    archive_digest: str
    harbor_digest: str
    images: TaskImages


@dataclass(frozen=True, slots=True)
class OracleRun:
    """One retained try of the agent `oracle` or `nop`. What is None is not on record."""

    reward: float | None
    images: Mapping[str, str]
    archive_digest: str | None
    harbor_digest: str | None

    def other_than(self, task: ProvedTask) -> str | None:
        """In words in what the run was not of this very task; None if it was."""
        ran, wanted = self.archive_digest, task.archive_digest
        if ran is None:
            ran, wanted = self.harbor_digest, task.harbor_digest
        if ran is None:
            return "the record of a run does not say which files the task had"
        if ran != wanted:
            return f"a run was of other files of the task: {ran}, not {wanted}"
        return self._other_image(task)

    def _other_image(self, task: ProvedTask) -> str | None:
        published = task.images.published or ""
        # Harbor does not record what a tag stood for; a digest in the task's own file stands for itself.
        told = {"environment": published} if not self.images and "@sha256:" in published else self.images
        named = {"environment": task.images.environment, "verifier": task.images.verifier}
        for role, image in named.items():
            ran = told.get(role)
            if image is None or (ran is None and role == "verifier"):
                continue
            if ran is None or _digest_part(ran) != _digest_part(image):
                return f"a run was on {role} image {ran or 'unknown'}, the ledger names {image}"
        return None


def _digest_part(image: str) -> str:
    return image.rpartition("@")[2]


@dataclass(frozen=True)
class OracleRuns:
    """The runs by task and agent, and one digest over the records that they were read from."""

    digest: str
    runs: Mapping[tuple[str, str], Sequence[OracleRun]] = field(default_factory=dict)

    def proof(self, task: ProvedTask) -> OracleProof | str:
        """The proof, or in words why the runs are none."""
        solution = self.runs.get((task.id, "oracle"), [])
        nothing = self.runs.get((task.id, "nop"), [])
        if len(solution) < SOLUTION_RUNS or not nothing:
            return (
                f"{len(solution)} runs of the reference solution and {len(nothing)} of no change are on "
                f"record; at least {SOLUTION_RUNS} and 1 are needed"
            )
        if wrong := [run.reward for run in solution if run.reward != 1]:
            return f"the reference solution scored {wrong[0]} in {len(wrong)} of {len(solution)} runs"
        if wrong := [run.reward for run in nothing if run.reward != 0]:
            return f"no change scored {wrong[0]} in {len(wrong)} of {len(nothing)} runs"
        for run in (*solution, *nothing):
            if words := run.other_than(task):
                return words
        return OracleProof(
            solution_rewards=[1.0] * len(solution),
            no_change_rewards=[0.0] * len(nothing),
            results_digest=self.digest,
        )


def parse_oracle_runs(contents: Sequence[bytes]) -> OracleRuns:
    """The runs of one or more `attempts.jsonl`, in any order. Raises OracleRunsError."""
    runs: dict[tuple[str, str], list[OracleRun]] = defaultdict(list)
    for content in contents:
        for number, line in enumerate(content.splitlines(), start=1):
            try:
                record = AttemptRecord.model_validate_json(line)
            except ValueError as error:
                raise OracleRunsError(f"line {number} is not an attempt record: {error}") from error
            agent = record.harness.agent or record.variant
            if record.retained and agent in _AGENTS:
                runs[record.task, agent].append(
                    OracleRun(record.reward, record.images, record.archive_digest, record.harbor_digest)
                )
    digests = sorted({digest_of_bytes(content) for content in contents})
    whole = digests[0] if len(digests) == 1 else digest_of_bytes("".join(digests).encode())
    return OracleRuns(whole, runs)
