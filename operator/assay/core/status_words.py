"""Words of a run's conditions and of its line in `kubectl get`: the cause, an example, the next step."""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

from assay.api.conditions import truncated
from assay.api.evaluation_run_status import SCORES_LIMIT, VectorRow
from assay.core.attempts import Invalid
from assay.core.pod_causes import Waiting
from assay.core.reconcile import Decision, LiveTry

CAUSE_LIMIT = 260
"""Characters of what others say, e.g. the kubelet: the next step behind it must not be cut off."""
_STEPS = {
    Waiting.QUEUED: "Kueue starts it when its queue has room",
    Waiting.QUOTA_BLOCKED: "raise the ResourceQuota, or lower spec.parallelism",
    Waiting.POD_REFUSED: "let the namespace admit attempt pods: pod security level baseline",
    Waiting.UNSCHEDULABLE: "add nodes with room, or make a new run with another spec.placement",
    Waiting.IMAGE_UNAVAILABLE: "push the image, or make a new run with imagePullSecrets or imageRewrites in "
    "spec.placement",
    Waiting.POD_NOT_STARTED: "mend what the event names, mostly a volume, its Secret or the node's network; "
    "the kubelet tries again by itself, and at its deadline the try is made again",
    Waiting.CONTAINER_NOT_CREATED: "mend what the message names; at its deadline the try is made again",
}
_SOON = frozenset({Waiting.NO_POD, Waiting.STARTING, Waiting.ENDING})
"""Waits that end by themselves, as a rule within seconds."""
TRY_AGAIN = "Mend the cause, then raise spec.retry.unscoredOnly by one to try again what has no score"


def step_for(waiting: Waiting) -> str:
    """What a person does about a wait; empty where there is nothing to do but wait."""
    return _STEPS.get(waiting, "")


def waiting_words(live: Sequence[LiveTry], example: LiveTry) -> str:
    """How many tries wait, for what, and what to do."""
    waiting = example.waiting
    if waiting is None:
        return ""
    said = truncated(waiting.message or waiting.reason.value, CAUSE_LIMIT).rstrip(". ")
    tries = "1 live try waits" if len(live) == 1 else f"{len(live)} live tries wait"
    step = step_for(waiting.reason)
    return f"{tries}, e.g. Job {example.name}: {said}" + (f". Next: {step}" if step else "")


def running_words(decision: Decision) -> str:
    """How far the run is, and what keeps some of its tries."""
    words = (
        f"{decision.ended} of {len(decision.states)} attempts have ended, {len(decision.live)} tries are live"
    )
    stuck = sorted(
        (one for one in decision.live if one.waiting is not None and one.waiting.reason not in _SOON),
        key=lambda one: one.name,
    )
    return f"{words}; {waiting_words(stuck, stuck[0])}" if stuck else words


def outstanding_words(decision: Decision) -> str:
    """What is missing for the run to be complete."""
    left = len(decision.states) - decision.ended
    if left:
        return f"{left} of {len(decision.states)} attempts have not ended"
    return f"all {len(decision.states)} attempts have ended; their results and the report are being stored"


def lost_words(decision: Decision) -> str:
    """The most frequent cause of attempts without a score, with an example; empty where there is none."""
    invalid = [state for state in decision.states.values() if isinstance(state, Invalid)]
    if not invalid:
        return ""
    outcome, count = Counter(state.last.outcome for state in invalid).most_common(1)[0]
    last = next(state.last for state in invalid if state.last.outcome is outcome)
    said = truncated(last.reason or last.rule.meaning, CAUSE_LIMIT)
    return f"{count} ended as {outcome.value}, e.g. Job {last.job_name}: {said}. {TRY_AGAIN}"


def short_scores(vector: Sequence[VectorRow]) -> str:
    """The strict scores with their n, the best first, as far as there is room; empty before the first."""
    known = [(Decimal(row.score_strict), row) for row in vector if row.score_strict is not None and row.valid]
    known.sort(key=lambda one: -one[0])
    several = len({row.ledger for row in vector}) > 1
    words = ""
    for place, (score, row) in enumerate(known):
        name = f"{row.ledger}/{row.variant}" if several else row.variant
        one = f"{', ' if words else ''}{name} {score:.1%} n={row.valid}/{row.planned}"
        more = f", +{len(known) - place}"
        if len(words) + len(one) + (len(more) if place < len(known) - 1 else 0) > SCORES_LIMIT:
            return words + more if words else truncated(one, SCORES_LIMIT)
        words += one
    return words
