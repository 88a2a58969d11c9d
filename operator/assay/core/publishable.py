"""The conditions under which figures may stand as a ranking (design §8). Every one that fails is a reason."""

from collections.abc import Iterator, Mapping

from assay.api.attempt_record import Criterion, RecordSource, RunRecord
from assay.api.evidence import PIN_EXTERNAL
from assay.core.collection import Pair, PairRecords
from assay.core.deviations import NON_STANDARD, Measured, measured_deviations
from assay.core.figures.attempts import VariantAttempts
from assay.core.figures.drift_gate import DriftGate
from assay.core.figures.observations import HackingVerdict
from assay.core.freeze_order import freeze_problems, freeze_times
from assay.core.score_input import ScoreInput

Attempts = Mapping[Pair, VariantAttempts]


def reasons_against(given: ScoreInput, attempts: Attempts, gate: DriftGate) -> list[str]:
    """Why the figures may not be published; empty if they may."""
    return list(
        dict.fromkeys(
            [
                # First: a status has room for some reasons only, and this is the one that nobody expects.
                *gate.drifted,
                *_ledgers(given),
                *_runs(given),
                *_freeze(given),
                *_measured(given),
                *_baseline(given),
                *_sentinels(given, attempts),
                *_coverage(attempts),
                *_integrity(given),
                *gate.reasons,
                *_prices(given),
            ]
        )
    )


def _ledgers(given: ScoreInput) -> Iterator[str]:
    for ledger in given.ledgers.values():
        if ledger.digest is None:
            yield f"ledger {ledger.name}: the results were not run on a frozen ledger"
        elif ledger.file is None:
            yield f"ledger {ledger.name}: its file was not given, so tasks and clusters are not verified"
        elif unproved := ledger.file.without_proof:
            yield (
                f"ledger {ledger.name}: the oracles of {len(unproved)} tasks are neither proved nor accepted "
                f"without proof, e.g. {unproved[0]}"
            )


def _runs(given: ScoreInput) -> Iterator[str]:
    for pair, found in sorted(given.collection.pairs.items()):
        if found.source is not RecordSource.ASSAY:
            yield f"run {found.run}: its results are imported, not run under a plan"
            continue
        if PIN_EXTERNAL in found.flags:
            yield f"run {found.run}: {PIN_EXTERNAL}: the runner image carries no ledger pin of its own"
        run = given.run_of(pair)
        if run is None:
            yield f"run {found.run}: its run record (run.json) was not given"
    for run in given.runs.values():
        yield from _run(given, run)


def _run(given: ScoreInput, run: RunRecord) -> Iterator[str]:
    if run.completed_at is None:
        yield f"run {run.name} has not ended"
    for deviation in run.deviations:
        yield f"run {run.name} is {NON_STANDARD}: {deviation}"
    if run.reused_results:
        yield f"run {run.name} reuses results of earlier runs: its baseline is not fresh"
    if run.order_seed is None:
        yield f"run {run.name}: baseline and candidates were not interleaved in a seeded random order"
    starts = [
        start
        for found in given.collection.pairs.values()
        if found.run_uid == run.uid
        for start in found.starts
    ]
    for ledger in run.ledgers:
        scored = given.ledgers.get(ledger.name)
        if scored is not None and scored.digest != ledger.digest:
            yield (
                f"ledger {ledger.name}: run {run.name} pinned {ledger.digest}, "
                f"the records name {scored.digest}"
            )
        if not ledger.verified:
            yield f"ledger {ledger.name} was not verified before run {run.name}"
        if ledger.frozen_at is not None and starts and ledger.frozen_at >= min(starts):
            yield f"ledger {ledger.name} was frozen after the first try had started"


def _freeze(given: ScoreInput) -> Iterator[str]:
    for name in given.ledgers:
        for run, facts, times in freeze_times(given, name):
            for problem in freeze_problems(facts.digest, times):
                yield f"ledger {name}, run {run.name}: {problem}"


def _measured(given: ScoreInput) -> Iterator[str]:
    """Deviations that only the records show."""
    prices = given.collection.prices
    for name, ledger in given.ledgers.items():
        judges = {
            judge
            for pair, found in given.collection.pairs.items()
            if pair.ledger == name
            for judge in found.judges
        }
        measured = Measured(name, ledger.plan, judges, prices.digest if prices else None)
        yield from (f"{NON_STANDARD}: {deviation}" for deviation in measured_deviations(measured))


def _baseline(given: ScoreInput) -> Iterator[str]:
    if given.baseline is None:
        yield "there is no baseline"
        return
    for ledger, scored in given.ledgers.items():
        mine = given.collection.pairs.get(Pair(ledger, given.baseline))
        if mine is None:
            yield f"ledger {ledger} has no result of baseline {given.baseline}"
            continue
        planned = scored.plan.baseline
        if planned is not None and mine.fingerprint != planned.fingerprint:
            yield f"ledger {ledger}: the baseline is not {planned.name} as its plan names it"
        for pair, found in sorted(given.collection.pairs.items()):
            if pair.ledger != ledger or pair.variant == given.baseline:
                continue
            if found.run_uid != mine.run_uid:
                yield f"ledger {ledger}: variant {pair.variant} and the baseline are of different runs"
            elif not _overlap(mine, found):
                yield f"ledger {ledger}: variant {pair.variant} did not run beside the baseline"


def _overlap(first: PairRecords, second: PairRecords) -> bool:
    """Whether first tries of the one started between those of the other. Unknown times are no proof."""
    if not first.starts or not second.starts:
        return False
    return min(first.starts) <= max(second.starts) and min(second.starts) <= max(first.starts)


def _sentinels(given: ScoreInput, attempts: Attempts) -> Iterator[str]:
    for ledger in given.ledgers:
        found = {given.sentinel(pair.variant): pair for pair in attempts if pair.ledger == ledger}
        for agent, expected in (("oracle", 1.0), ("nop", 0.0)):
            pair = found.get(agent)
            if pair is None:
                yield f"ledger {ledger} has no {agent} sentinel"
                continue
            wrong = [
                task
                for task, observed in attempts[pair].by_task.items()
                if any(one.reward not in (None, expected) for one in observed)
            ]
            if wrong:
                yield (
                    f"ledger {ledger}: the {agent} sentinel did not give {expected:g} on "
                    f"{len(wrong)} of {len(attempts[pair].by_task)} tasks, e.g. {wrong[0]}"
                )


def _coverage(attempts: Attempts) -> Iterator[str]:
    for pair, found in attempts.items():
        valid = len(found.retained)
        if valid < found.planned:
            yield (
                f"ledger {pair.ledger}, variant {pair.variant}: {found.planned - valid} of {found.planned} "
                "attempts have no valid result"
            )


def _integrity(given: ScoreInput) -> Iterator[str]:
    for pair, found in sorted(given.collection.pairs.items()):
        if given.sentinel(pair.variant):
            continue
        needed = given.judged_on(pair.ledger)
        kept = [attempt.kept for attempt in found.attempts.values() if attempt.kept]
        row = f"ledger {pair.ledger}, variant {pair.variant}"
        if Criterion.REWARD_HACKING.value in needed:
            unread = sum(one.reward > 0 and one.hacking is HackingVerdict.NOT_READ for one in kept)
            if unread:
                yield f"{row}: {unread} passing attempts were not read for reward hacking"
        if Criterion.REFUSAL.value in needed:
            unread = sum(one.calls_models and not one.refusal_read for one in kept)
            if unread:
                yield f"{row}: {unread} attempts were not read for refusals by the model"
        for criterion in sorted(needed - {one.value for one in Criterion}):
            yield f"{row}: the plan asks for a judge of {criterion}, which this version does not know"


def _prices(given: ScoreInput) -> Iterator[str]:
    prices = given.collection.prices
    if prices is None:
        if given.collection.called_models:
            yield "no price sheet: costs are not known"
        return
    if prices.sheet.reviewed is None:
        yield "no person has reviewed the price sheet"
