"""The oracle of a task: what decides the reward, and the runs that show that it can tell right from wrong."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from assay.api.attempt_record import AttemptRecord
from assay.api.ledgerfile import OracleProof, TaskImages
from assay.core.archive import Entry, Kind
from assay.core.canonical import digest_of_bytes

SOLUTION_RUNS = 3
"""How often the reference solution must have scored 1."""
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
    """The file of oracle runs cannot be used; the message names the line."""


@dataclass
class OracleRuns:
    """Rewards of the agents `oracle` and `nop`, by task and agent, with the images that they ran on."""

    digest: str
    rewards: Mapping[tuple[str, str], list[tuple[float | None, Mapping[str, str]]]] = field(
        default_factory=dict
    )

    def proof(self, task: str, images: TaskImages) -> OracleProof | str:
        """The proof, or in words why the runs are none."""
        solution = self.rewards.get((task, "oracle"), [])
        nothing = self.rewards.get((task, "nop"), [])
        if len(solution) < SOLUTION_RUNS or not nothing:
            return (
                f"{len(solution)} runs of the reference solution and {len(nothing)} of no change are on "
                f"record; at least {SOLUTION_RUNS} and 1 are needed"
            )
        if wrong := [reward for reward, _ in solution if reward != 1]:
            return f"the reference solution scored {wrong[0]} in {len(wrong)} of {len(solution)} runs"
        if wrong := [reward for reward, _ in nothing if reward != 0]:
            return f"no change scored {wrong[0]} in {len(wrong)} of {len(nothing)} runs"
        expected = {_digest_part(images.environment)}
        for _, ran in (*solution, *nothing):
            if (found := ran.get("environment")) is None or _digest_part(found) not in expected:
                return f"a run was on image {found or 'unknown'}, the ledger names {images.environment}"
        return OracleProof(
            solution_rewards=[1.0] * len(solution),
            no_change_rewards=[0.0] * len(nothing),
            results_digest=self.digest,
        )


def _digest_part(image: str) -> str:
    return image.rpartition("@")[2]


def parse_oracle_runs(content: bytes) -> OracleRuns:
    """The retained tries of an `attempts.jsonl` whose agent is `oracle` or `nop`. Raises OracleRunsError."""
    rewards: dict[tuple[str, str], list[tuple[float | None, Mapping[str, str]]]] = defaultdict(list)
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            record = AttemptRecord.model_validate_json(line)
        except ValueError as error:
            raise OracleRunsError(f"line {number} is not an attempt record: {error}") from error
        agent = record.harness.agent or record.variant
        if record.retained and agent in ("oracle", "nop"):
            rewards[record.task, agent].append((record.reward, record.images))
    return OracleRuns(digest_of_bytes(content), rewards)
