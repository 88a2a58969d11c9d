"""What attempts took: tokens, cost, seconds as means over known values, for a row and over a whole suite."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from assay.core.figures.known_means import KnownMean, known_mean, pooled_mean
from assay.core.record_totals import TOKEN_KINDS, Kept


@dataclass(frozen=True, slots=True)
class UsageFigures:
    """Means and totals over retained attempts: tokens by kind, USD, seconds."""

    tokens: Mapping[str, KnownMean]
    cost_usd: KnownMean
    cost_gaps: frozenset[str]
    """Why costs are not known."""
    agent_seconds: KnownMean
    total_seconds: KnownMean


def usage_of(kept: Sequence[Kept]) -> UsageFigures:
    """What the retained tries took."""
    return UsageFigures(
        tokens={
            kind: known_mean([one.tokens[place] for one in kept]) for place, kind in enumerate(TOKEN_KINDS)
        },
        cost_usd=known_mean([one.cost.usd for one in kept]),
        cost_gaps=frozenset(one.cost.reason for one in kept if one.cost.reason),
        agent_seconds=known_mean([one.agent_seconds for one in kept]),
        total_seconds=known_mean([one.total_seconds for one in kept]),
    )


def pooled_usage(found: Collection[UsageFigures]) -> UsageFigures:
    """As if all attempts were of one row."""
    return UsageFigures(
        tokens={kind: pooled_mean([one.tokens[kind] for one in found]) for kind in TOKEN_KINDS},
        cost_usd=pooled_mean([one.cost_usd for one in found]),
        cost_gaps=frozenset().union(*(one.cost_gaps for one in found)),
        agent_seconds=pooled_mean([one.agent_seconds for one in found]),
        total_seconds=pooled_mean([one.total_seconds for one in found]),
    )
