"""Records, ledgers and reports in memory, made as runs would leave them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from assay.api.attempt_record import AttemptRecord, LedgerFacts, RunRecord
from assay.api.base import Record
from assay.api.ledgerfile import LedgerHeader, TaskLine
from assay.api.price_sheet import PriceSheet
from assay.api.report import CodeVersion, Report, Row
from assay.api.suite import SuiteDefinition
from assay.core.collection import Collection
from assay.core.ledger import LedgerFile, parse_ledger, render_ledger, with_line_digest
from assay.core.prices import Prices
from assay.core.records_file import Place
from assay.core.report import make_report
from assay.core.score_input import ScoreInput, match_components, scored_ledgers

DIGEST = f"sha256:{'1' * 64}"
CODE = CodeVersion(assay="0.1.0", commit="c" * 40)
START = datetime(2026, 11, 30, 12, tzinfo=UTC)
RUN_UID = "11111111-2222-3333-4444-555555555555"


def ledger_file(
    clusters: Mapping[str, str],
    *,
    benchmark: str = "sample",
    version: str = "1.0",
    repetitions: int = 3,
    **plan: Any,
) -> LedgerFile:
    """A ledger of the tasks, each with its cluster; it has passed the real reader."""
    lines = [
        with_line_digest(
            TaskLine.model_validate(
                {
                    "id": task,
                    "archive_digest": DIGEST,
                    "archive_bytes": 1,
                    "harbor_digest": DIGEST,
                    "licence": {"value": "MIT", "source": "LICENSE", "date": "2026-01-01"},
                    "difficulty": {"value": "easy", "source": "authors", "date": "2026-01-01"},
                    "category": "feature" if place % 2 else "repair",
                    "language": "python",
                    "oracle": {"kind": "tests", "digest": DIGEST, "accepted_without_proof": "made up"},
                    "images": {"environment": f"registry.example/task@{DIGEST}"},
                    "verifier_mode": "shared",
                    "network": "none",
                    "resources": {},
                    "timeouts": {},
                    "cluster": cluster,
                    "cluster_reason": "stated",
                    "base_commit": "c" * 40,
                    "line_digest": DIGEST,
                }
            )
        )
        for place, (task, cluster) in enumerate(sorted(clusters.items()))
    ]
    header = LedgerHeader.model_validate(
        {
            "benchmark": benchmark,
            "version": version,
            "plan": {"repetitions": repetitions, **plan},
            "task_count": len(lines),
        }
    )
    return parse_ledger(render_ledger(header, lines))


def record(task: str, variant: str = "candidate", **changes: Any) -> AttemptRecord:
    """A graded first try of repetition 0 that passed, unless `changes` says otherwise."""
    document = {
        "run": "nightly",
        "run_uid": RUN_UID,
        "ledger": "ledger",
        "task": task,
        "variant": variant,
        "repetition": 0,
        "retained": True,
        "outcome": "Graded",
        "reward": 1.0,
        "calls": [],
    }
    return AttemptRecord.model_validate({**document, **changes})


def attempts(
    rewards: Mapping[str, Sequence[float | None]], variant: str = "candidate", **changes: Any
) -> list[AttemptRecord]:
    """One record for each reward of each task; None is an attempt that was lost to the infrastructure."""
    return [
        record(
            task,
            variant,
            repetition=repetition,
            **(
                {"reward": reward}
                if reward is not None
                else {"reward": None, "retained": False, "outcome": "VerifierTimeout", "reason": "too slow"}
            ),
            **changes,
        )
        for task, found in rewards.items()
        for repetition, reward in enumerate(found)
    ]


def lines(records: Iterable[Record]) -> list[bytes]:
    """The records as the lines of a file."""
    return [one.model_dump_json(by_alias=True, exclude_none=True).encode() + b"\n" for one in records]


def collection(records: Iterable[AttemptRecord], sheet: PriceSheet | None = None) -> Collection:
    """All records collected, each at a place of its own."""
    found = Collection(Prices(sheet) if sheet else None)
    found.add_all((Place("attempts.jsonl", number), one) for number, one in enumerate(records, start=1))
    return found


@dataclass
class Scoring:
    """What `report` scores, with defaults for all but the records."""

    records: Sequence[AttemptRecord]
    ledgers: Sequence[LedgerFile] = ()
    baseline: str | None = None
    suite: SuiteDefinition | None = None
    runs: Sequence[RunRecord] = ()
    sheet: PriceSheet | None = None
    reference: Sequence[AttemptRecord] = field(default_factory=list)

    def given(self) -> ScoreInput:
        """The input as the command line would make it."""
        found = collection(self.records, self.sheet)
        scored = scored_ledgers(found, self.ledgers, self.runs)
        return ScoreInput(
            collection=found,
            ledgers=scored,
            runs={run.uid: run for run in self.runs},
            suite=self.suite,
            components=match_components(self.suite, scored) if self.suite else {},
            baseline=self.baseline,
            reference=[collection(self.reference)] if self.reference else [],
        )


def report(records: Sequence[AttemptRecord], **given: Any) -> Report:
    """The report of the records; keywords as `Scoring` has them."""
    return make_report(Scoring(records, **given).given(), CODE)


def row(found: Report, variant: str = "candidate") -> Row:
    """The only row of a variant."""
    (one,) = [one for one in found.vector if one.variant == variant]
    return one


def run_record(ledgers: Mapping[str, LedgerFile], variants: Iterable[str], **changes: Any) -> RunRecord:
    """The record of a run that followed its plan."""
    document = {
        "name": "nightly",
        "uid": RUN_UID,
        "started_at": START,
        "completed_at": START + timedelta(hours=1),
        "ledgers": [
            LedgerFacts(
                name=name,
                digest=file.digest,
                verified=True,
                frozen_at=START - timedelta(days=1),
                recorded_at=START - timedelta(seconds=1),
                recorded_digest=file.digest,
                repetitions=file.header.plan.repetitions,
            )
            for name, file in ledgers.items()
        ],
        "variants": dict.fromkeys(variants, DIGEST),
        "baseline": "baseline",
        "order_seed": RUN_UID,
        "reused_results": False,
        "concurrency": 10,
    }
    return RunRecord.model_validate({**document, **changes})
