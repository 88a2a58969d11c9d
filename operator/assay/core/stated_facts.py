"""What nobody stated about a ledger's tasks, or stated late, in numbers."""

from collections import Counter

from assay.api.ledgerfile import TaskLine
from assay.api.report import StatedFacts
from assay.core.ledger import LedgerFile, unknown_facts


def oracle_state(task: TaskLine) -> str:
    """Whether the task's oracle is `proved`, `accepted` without proof, or `unproved`."""
    if task.oracle is not None and task.oracle.proof is not None:
        return "proved"
    return "accepted" if task.oracle is not None and task.oracle.accepted_without_proof else "unproved"


def stated_facts(ledger: LedgerFile) -> StatedFacts:
    """The counts over all tasks of the file."""
    unknown = Counter(fact for task in ledger.tasks for fact in unknown_facts(task))
    upstream = ledger.header.upstream
    return StatedFacts(
        unknown=dict(sorted(unknown.items())),
        labelled_after_results=len(ledger.labelled_after_results),
        oracles=dict(sorted(Counter(map(oracle_state, ledger.tasks)).items())),
        stale_upstream_digests=len(upstream.stale) if upstream else 0,
        assertions_not_read=len(ledger.unread_assertions),
    )


def fact_words(facts: StatedFacts) -> list[str]:
    """One sentence for each count that a reader must know of; none for a ledger without blemish."""
    counts = (
        *((f"{fact} of {{}} tasks is unknown", count) for fact, count in facts.unknown.items()),
        ("{} tasks were labelled after the first published result", facts.labelled_after_results),
        ("{} oracles were accepted without proof", facts.oracles.get("accepted", 0)),
        ("{} published digests were stale, and accepted", facts.stale_upstream_digests),
    )
    return [f"{words.format(count)}." for words, count in counts if count]
