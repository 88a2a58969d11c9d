"""What the figures depend on, each with the digest by which anybody finds the very same thing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay.api.attempt_record import RunRecord
from assay.api.report import Report, StatedFacts
from assay.core.report_html.source import Source
from assay.core.report_html.tries import Tries


@dataclass(frozen=True, slots=True)
class Mark:
    """One line of the fingerprint. `code` is what is copied."""

    name: str
    code: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class MarkGroup:
    """Lines that belong together."""

    title: str
    marks: Sequence[Mark]


def fingerprint(source: Source, tries: Tries) -> list[MarkGroup]:
    """Everything by which two runs are found comparable or not."""
    report = source.report
    groups = [
        MarkGroup("Files of this report", list(_files(source))),
        MarkGroup("Ledgers", list(_ledgers(report))),
        MarkGroup("Variants", list(_variants(report))),
        MarkGroup("Harness", list(_harness(report))),
        MarkGroup("Prices", list(_prices(report))),
        MarkGroup("Images", list(_images(tries))),
        *(MarkGroup(f"Run {run.name}", list(_run(run))) for run in report.runs),
    ]
    return [group for group in groups if group.marks]


def _files(source: Source) -> Iterator[Mark]:
    yield Mark("report.json", source.file.digest, source.file.address)
    for one in source.attempts:
        yield Mark("attempts.jsonl", one.digest, one.address)


def _ledgers(report: Report) -> Iterator[Mark]:
    for one in report.ledgers:
        name = f"{one.benchmark} {one.version}" if one.benchmark else "tasks of the records, not frozen"
        size = f"{one.tasks} tasks in {one.clusters} clusters, repetitions: {one.repetitions}"
        yield Mark(one.name, one.digest or "", f"{name}; {size}")
        if one.resources:
            yield Mark(f"{one.name}: resources", one.resources, "Over what every task's tries asked for")
        if one.facts:
            yield Mark(f"{one.name}: facts of its tasks", "", _facts(one.facts))


def _facts(facts: StatedFacts) -> str:
    """What nobody stated, and what was stated late, in numbers of tasks."""
    counts = {
        **{f"oracle {name}": count for name, count in facts.oracles.items()},
        **{f"{name} unknown": count for name, count in facts.unknown.items()},
        "labelled after the first results": facts.labelled_after_results,
        "published digest that the task does not have": facts.stale_upstream_digests,
        "no failing assertion read": facts.assertions_not_read,
    }
    return "; ".join(f"{name}: {count}" for name, count in counts.items() if count) or "all stated in time"


def _variants(report: Report) -> Iterator[Mark]:
    fingerprints = {name: digest for run in report.runs for name, digest in run.variants.items()}
    models: dict[str, set[str]] = {}
    for row in report.vector:
        models.setdefault(row.variant, set()).update((*row.harness.agents, *row.harness.models))
    for name, used in models.items():
        yield Mark(name, fingerprints.get(name, ""), ", ".join(sorted(used)) or "no model is declared")


def _harness(report: Report) -> Iterator[Mark]:
    for title, found in (
        ("Assay", sorted({one for row in report.vector for one in row.harness.assay})),
        ("Commit of the runner", sorted({one for row in report.vector for one in row.harness.commits})),
        ("Harbor", sorted({one for row in report.vector for one in row.harness.harbor})),
    ):
        note = "" if len(found) < 2 else "a mixture: figures of one table come from different code"
        yield from (Mark(title, one, note) for one in found)
    yield Mark("Computed by Assay", report.code.assay, report.code.commit or "commit unknown")


def _prices(report: Report) -> Iterator[Mark]:
    if (sheet := report.prices) is None:
        return
    reviewed = "reviewed" if sheet.reviewed else "not reviewed"
    yield Mark(
        "Price sheet", sheet.digest, f"{sheet.valid_on}, from {sheet.package} {sheet.version}, {reviewed}"
    )
    for model in sheet.unknown_models:
        yield Mark("No price", model, "its cost is unknown, not 0")


def _images(tries: Tries) -> Iterator[Mark]:
    for container, found in sorted(tries.images.items()):
        for image, number in sorted(found.items(), key=lambda pair: (-pair[1], pair[0])):
            yield Mark(container, image, f"{number:,} tries")


def _run(run: RunRecord) -> Iterator[Mark]:
    yield Mark("UID", run.uid)
    yield Mark("Report revision", str(run.revision), f"supersedes {run.supersedes}" if run.supersedes else "")
    if run.journal_head:
        yield Mark("Journal's head", run.journal_head.digest, "All of the journal hangs on it")
    if run.price_sheet:
        yield Mark("Price sheet pinned", run.price_sheet)
    yield from (Mark(f"Image: {name}", image) for name, image in run.images.items())
    if run.evidence:
        yield Mark("Evidence", run.evidence)
    if run.order_seed:
        yield Mark("Order seed", run.order_seed, "Of the random order that all first tries shared")
    if run.concurrency:
        yield Mark("Tries at once", str(run.concurrency))
    yield from (Mark(f"Deadline: {phase}", f"{value} s") for phase, value in run.deadlines.items())
    yield from (Mark("Deviation", one) for one in run.deviations)
    for ledger in run.ledgers:
        if ledger.frozen_at:
            yield Mark(f"{ledger.name} frozen", ledger.frozen_at.isoformat(timespec="seconds"))
