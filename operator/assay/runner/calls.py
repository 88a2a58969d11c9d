"""What the outcome of a try needs to know of its model calls."""

from collections.abc import Sequence
from dataclasses import dataclass

from assay.api.evidence import TokenCounts
from assay.api.outcome import OutcomeClass

_FIELDS = tuple(TokenCounts.model_fields)


@dataclass(frozen=True, slots=True)
class CallSummary:
    """One call that asked a model for an answer, without its bodies."""

    status: int
    """HTTP status; 0 when there was none."""
    answered: bool
    """The model's answer arrived whole."""
    model: str | None
    """The model that answered, or was asked."""
    fault: OutcomeClass | None = None
    """The class that the provider's refusal belongs to."""
    refusal: str | None = None
    refused_by_assay: bool = False
    """The call never left the pod: a provider-hosted tool in a task without network."""
    message: str = ""


def trailing_fault(calls: Sequence[CallSummary]) -> CallSummary | None:
    """The provider's fault that ended the agent's work: no answer came after it."""
    last = next((call for call in reversed(calls) if call.answered or call.fault), None)
    return last if last is not None and last.fault else None


def trailing_refusal(calls: Sequence[CallSummary]) -> CallSummary | None:
    """The refusal that was the last answer."""
    last = next((call for call in reversed(calls) if call.answered), None)
    return last if last is not None and last.refusal else None


def fallback_after_refusal(calls: Sequence[CallSummary]) -> bool:
    """Whether a model refused and another one answered later."""
    refused: set[str | None] = set()
    for call in calls:
        if call.refusal:
            refused.add(call.model)
        elif call.answered and refused - {call.model}:
            return True
    return False


def total_tokens(counts: Sequence[TokenCounts]) -> TokenCounts:
    """The sum over calls. A figure that one call does not know is unknown in the sum (cases.md BAR 7)."""
    if not counts:
        return TokenCounts()
    sums = {}
    for name in _FIELDS:
        values = [getattr(count, name) for count in counts]
        sums[name] = None if None in values else sum(values)
    return TokenCounts(**sums)
