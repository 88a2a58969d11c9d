"""What calls cost (method §4.8): Decimal, per call, unknown where anything that it depends on is unknown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import NamedTuple

from pydantic import ValidationError

from assay.api.attempt_record import CallUsage
from assay.api.base import first_problem
from assay.api.evidence import TokenCounts
from assay.api.price_sheet import ModelPrices, PriceSheet, Rates, TierRates
from assay.core.canonical import digest_of

MAX_SHEET_BYTES = 4 << 20
_PRICE_PLACES = 10
"""Decimal places of a price, which is for a million tokens."""
_TOKEN_PLACES = _PRICE_PLACES + 6
_EXACT = Context(prec=60)
STANDARD_TIERS = frozenset({None, "default", "standard", "auto"})
"""Names under which providers bill at their list price."""


class PriceSheetError(ValueError):
    """The bytes are no price sheet, or another one than was named; the message says what to do."""


def parse_price_sheet(content: bytes, digest: str) -> "Prices":
    """The sheet with this digest. Raises PriceSheetError."""
    try:
        prices = Prices(PriceSheet.model_validate_json(content))
    except ValidationError as error:
        raise PriceSheetError(
            f"{first_problem(error)}; the file must be what `assay prices build` writes"
        ) from error
    if prices.digest != digest:
        raise PriceSheetError(
            f"the sheet has digest {prices.digest}, spec.priceSheet.digest is {digest}: no Job is made; give "
            "the sheet that was meant, or name this one in a new run"
        )
    return prices


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
        self._cards: dict[tuple[str | None, str | None], _Card | str] = {}

    @property
    def models(self) -> frozenset[str]:
        """Names of the models that the sheet prices."""
        return frozenset(self._models)

    def of_call(self, call: CallUsage) -> Cost:
        """Cost of one call at its own tier."""
        return self.of_calls([call])

    def of_calls(self, calls: Iterable[CallUsage] | None) -> Cost:
        """Cost of all calls of a try: unknown if one of them is. A try that made no call costs 0."""
        if calls is None:
            return Cost(None, "the calls were not recorded")
        total = 0
        for call in calls:
            key = call.model, call.service_tier
            card = self._cards.get(key) or self._cards.setdefault(key, self._card(*key))
            units = card if isinstance(card, str) else _units(call.tokens, card)
            if isinstance(units, str):
                return Cost(None, units)
            total += units
        return Cost(Decimal(total).scaleb(-_TOKEN_PLACES, _EXACT))

    def _card(self, model: str | None, service_tier: str | None) -> "_Card | str":
        """The tier that a call is billed by, or why its cost is not known."""
        if model is None:
            return "a call names no model"
        prices = self._models.get(model)
        if prices is None:
            return f"the price sheet has no model {model}"
        tier: TierRates | None = prices
        if service_tier not in STANDARD_TIERS:
            tier = prices.service_tiers.get(service_tier or "")
        if tier is None:
            return f"the price sheet has no service tier {service_tier} of {model}"
        long = [(one.above_input_tokens, _whole(one.rates)) for one in tier.long]
        return _Card(_whole(tier.rates), tuple(reversed(long)))


class _WholeRates(NamedTuple):
    """Rates as whole numbers of 10⁻¹⁰ USD per million tokens. None: no price of its own."""

    input: int
    output: int
    cache_read: int | None
    cache_write_5m: int | None
    cache_write_1h: int | None
    reasoning: int | None


class _Card(NamedTuple):
    """Rates of one tier; `long` from the highest threshold down."""

    rates: _WholeRates
    long: tuple[tuple[int, _WholeRates], ...]


def _whole(rates: Rates) -> _WholeRates:
    def units(price: Decimal) -> int:
        return int(price.scaleb(_PRICE_PLACES))

    def own(price: Decimal | None, holder: Decimal) -> int | None:
        return None if price is None or price == holder else units(price)

    hour = rates.cache_write_5m if rates.cache_write_1h is None else rates.cache_write_1h
    return _WholeRates(
        input=units(rates.input),
        output=units(rates.output),
        cache_read=own(rates.cache_read, rates.input),
        cache_write_5m=own(rates.cache_write_5m, rates.input),
        cache_write_1h=own(hour, rates.input),
        reasoning=own(rates.reasoning, rates.output),
    )


def _units(tokens: TokenCounts, card: _Card) -> int | str:
    """What a call cost in 10⁻¹⁶ USD, exact; or why it is not known."""
    if tokens.input is None or tokens.output is None:
        return "a call has no token counts"
    rates = card.rates
    for above, long in card.long:
        if tokens.input > above:
            rates = long
            break
    hours = tokens.cache_write_1h
    if hours is None and tokens.cache_write_5m is not None:
        hours = 0  # who reports writes without an hour's kind has none: OpenAI's answers know one kind only
    rest, total = tokens.input, 0
    for count, price, kind in (
        (tokens.cache_read, rates.cache_read, "cache reads"),
        (tokens.cache_write_5m, rates.cache_write_5m, "cache writes"),
        (hours, rates.cache_write_1h, "cache writes of an hour"),
    ):
        if price is None:
            continue
        if count is None:
            return f"a call does not say its {kind}, which have a price of their own"
        total += count * price
        rest -= count
    if rest < 0:
        return "a call counts more cached tokens than input tokens"
    output = _output_units(tokens.output, tokens.reasoning, rates)
    return output if isinstance(output, str) else total + rest * rates.input + output


def _output_units(output: int, reasoning: int | None, rates: _WholeRates) -> int | str:
    if rates.reasoning is None:
        return output * rates.output
    if reasoning is None:
        return "a call does not say its reasoning tokens, which have a price of their own"
    if reasoning > output:
        return "a call counts more reasoning tokens than output tokens"
    return reasoning * rates.reasoning + (output - reasoning) * rates.output
