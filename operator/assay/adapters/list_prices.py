"""A price sheet from the `genai-prices` package, from the data that it ships: no network, always a date."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import genai_prices.data
from genai_prices.data_snapshot import DataSnapshot
from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices

from assay.api.price_sheet import LongRates, ModelPrices, PriceSheet, PriceSource, Rates, TierRates
from assay.core.canonical import digest_of_bytes

PACKAGE = "genai-prices"
_KINDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write_5m": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "reasoning": "output_reasoning_mtok",
}
"""Our kinds of tokens and the package's names of their prices."""
_IGNORED_SUFFIXES = ("_kcount",)
"""Prices of hosted tools: the runner's gateway refuses these tools."""
_TIER_CONTEXTS = ("service_tier", "processing")


class PriceUnknownError(Exception):
    """The package has no usable price of a model; the message names it and what to do."""


def build_price_sheet(models: Iterable[str], valid_on: date) -> PriceSheet:
    """The sheet of the named models, each as `MODEL` or `PROVIDER/MODEL`. Raises PriceUnknownError."""
    snapshot = DataSnapshot(providers=genai_prices.data.providers, from_auto_update=False)
    at = datetime.combine(valid_on, time(12), UTC)
    entries = [_entry(snapshot, name, at) for name in dict.fromkeys(models)]
    source = Path(genai_prices.data.__file__)
    return PriceSheet(
        valid_on=valid_on,
        source=PriceSource(
            package=PACKAGE, version=version(PACKAGE), data_digest=digest_of_bytes(source.read_bytes())
        ),
        models=sorted(entries, key=lambda one: one.model),
    )


def _entry(snapshot: DataSnapshot, name: str, at: datetime) -> ModelPrices:
    provider, model = _find(snapshot, name)
    standard = _tier(model.get_prices(at), name)
    tiers = {}
    for variant in model.price_variants or []:
        label = next((variant.when[key] for key in _TIER_CONTEXTS if key in variant.when), None)
        if label is None or len(variant.when) != 1 or label in tiers:
            continue
        tier = _tier(model.get_prices(at, variant.when), name)
        if tier != standard:
            tiers[label] = tier
    return ModelPrices(
        model=_model_name(snapshot, name),
        priced_as=model.id,
        provider=provider.id,
        rates=standard.rates,
        long=standard.long,
        service_tiers=tiers,
    )


def _find(snapshot: DataSnapshot, name: str) -> tuple[Provider, ModelInfo]:
    provider = _provider_of(snapshot, name)
    try:
        return snapshot.find_provider_model(_model_name(snapshot, name), None, provider, None)
    except LookupError as error:
        raise PriceUnknownError(
            f"{name}: {PACKAGE} {version(PACKAGE)} has no such model; check the name, or write PROVIDER/MODEL"
        ) from error


def _provider_of(snapshot: DataSnapshot, name: str) -> str | None:
    head, slash, _ = name.partition("/")
    return head if slash and any(one.id == head for one in snapshot.providers) else None


def _model_name(snapshot: DataSnapshot, name: str) -> str:
    return name.partition("/")[2] if _provider_of(snapshot, name) else name


def _tier(prices: ModelPrice, name: str) -> TierRates:
    given = {key: value for key, value in vars(prices).items() if value is not None}
    unpriced = {
        key for key in given if key not in _KINDS.values() and not key.endswith(_IGNORED_SUFFIXES)
    } - _of_other_media(given)
    if unpriced:
        raise PriceUnknownError(
            f"{name}: the package prices {', '.join(sorted(unpriced))}, which a price sheet cannot express; "
            "write this model's entry by hand"
        )
    starts = sorted(
        {tier.start for value in given.values() if isinstance(value, TieredPrices) for tier in value.tiers}
    )
    return TierRates(
        rates=_rates(given, 0, name),
        long=[LongRates(above_input_tokens=start, rates=_rates(given, start + 1, name)) for start in starts],
    )


def _of_other_media(given: Iterable[str]) -> set[str]:
    """Prices of sound and pictures: coding agents send text, and their token counts are text's."""
    return {key for key in given if any(word in key for word in ("audio", "image", "video"))}


def _rates(given: dict[str, Decimal | TieredPrices], input_tokens: int, name: str) -> Rates:
    found = {kind: _at(given.get(key), input_tokens) for kind, key in _KINDS.items()}
    if found["input"] is None or found["output"] is None:
        missing = "input" if found["input"] is None else "output"
        raise PriceUnknownError(
            f"{name}: the package has no price of {missing} tokens; write the entry by hand"
        )
    return Rates.model_validate(found)


def _at(price: Decimal | TieredPrices | None, input_tokens: int) -> Decimal | None:
    if not isinstance(price, TieredPrices):
        return price
    found = price.base
    for tier in price.tiers:
        if input_tokens > tier.start:
            found = tier.price
    return found
