"""What calls cost (method §4.8): Decimal, per call, unknown where anything that it depends on is unknown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from assay.api.attempt_record import CallUsage
from assay.api.evidence import TokenCounts
from assay.api.price_sheet import ModelPrices, PriceSheet, Rates, TierRates
from assay.core.canonical import digest_of

PER_MILLION = Decimal(1_000_000)
STANDARD_TIERS = frozenset({None, "default", "standard", "auto"})
"""Names under which providers bill at their list price."""


@dataclass(frozen=True, slots=True)
class Cost:
    """USD, exact; `usd` is None where it is not known, and `reason` says why."""

    usd: Decimal | None
    reason: str | None = None


class Prices:
    """A price sheet, ready to price calls with."""

    def __init__(self, sheet: PriceSheet) -> None:
        self.sheet = sheet
        self.digest = digest_of(sheet)
        self._models: Mapping[str, ModelPrices] = {one.model: one for one in sheet.models}

    @property
    def models(self) -> frozenset[str]:
        """Names of the models that the sheet prices."""
        return frozenset(self._models)

    def of_call(self, call: CallUsage) -> Cost:
        """Cost of one call at its own tier."""
        if call.model is None:
            return Cost(None, "a call names no model")
        prices = self._models.get(call.model)
        if prices is None:
            return Cost(None, f"the price sheet has no model {call.model}")
        tier: TierRates | None = prices
        if call.service_tier not in STANDARD_TIERS:
            tier = prices.service_tiers.get(call.service_tier or "")
        if tier is None:
            return Cost(None, f"the price sheet has no service tier {call.service_tier} of {call.model}")
        return _priced(call.tokens, tier)

    def of_calls(self, calls: Iterable[CallUsage] | None) -> Cost:
        """Cost of all calls of a try: unknown if one of them is. A try that made no call costs 0."""
        if calls is None:
            return Cost(None, "the calls were not recorded")
        total = Decimal()
        for call in calls:
            cost = self.of_call(call)
            if cost.usd is None:
                return cost
            total += cost.usd
        return Cost(total)


def _priced(tokens: TokenCounts, tier: TierRates) -> Cost:
    if tokens.input is None or tokens.output is None:
        return Cost(None, "a call has no token counts")
    rates = tier.rates
    for long in tier.long:
        if tokens.input > long.above_input_tokens:
            rates = long.rates
    total, rest = Decimal(), tokens.input
    hour = rates.cache_write_5m if rates.cache_write_1h is None else rates.cache_write_1h
    # Who reports writes without an hour's kind has none: OpenAI's answers know one kind only.
    hours = (
        0 if tokens.cache_write_1h is None and tokens.cache_write_5m is not None else tokens.cache_write_1h
    )
    for count, price, kind in (
        (tokens.cache_read, rates.cache_read, "cache reads"),
        (tokens.cache_write_5m, rates.cache_write_5m, "cache writes"),
        (hours, hour, "cache writes of an hour"),
    ):
        if price is None or price == rates.input:
            continue
        if count is None:
            return Cost(None, f"a call does not say its {kind}, which have a price of their own")
        total += count * price
        rest -= count
    if rest < 0:
        return Cost(None, "a call counts more cached tokens than input tokens")
    return _with_output(total + rest * rates.input, tokens, rates)


def _with_output(total: Decimal, tokens: TokenCounts, rates: Rates) -> Cost:
    output, reasoning = tokens.output or 0, tokens.reasoning
    if rates.reasoning is None or rates.reasoning == rates.output:
        return Cost((total + output * rates.output) / PER_MILLION)
    if reasoning is None:
        return Cost(None, "a call does not say its reasoning tokens, which have a price of their own")
    if reasoning > output:
        return Cost(None, "a call counts more reasoning tokens than output tokens")
    return Cost((total + reasoning * rates.reasoning + (output - reasoning) * rates.output) / PER_MILLION)
