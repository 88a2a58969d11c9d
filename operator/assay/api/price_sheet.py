"""`prices.json`: what models cost on a day, made once from a named source and reviewed by a person."""

from datetime import date
from decimal import Decimal
from typing import Annotated, Self

from pydantic import Field, model_validator

from assay.api.base import Digest, Record, VersionedRecord

Price = Annotated[Decimal, Field(ge=0, le=1_000_000, max_digits=20, decimal_places=10)]
"""USD per million tokens, a decimal string on disk."""


class Rates(Record):
    """USD per million tokens by kind. A kind without a price of its own costs what holds it costs:
    cache reads and writes as input, writes of an hour as those of 5 minutes, reasoning as output.
    """

    input: Price
    output: Price
    cache_read: Price | None = None
    cache_write_5m: Price | None = None
    cache_write_1h: Price | None = None
    reasoning: Price | None = None


class LongRates(Record):
    """Rates of a whole call whose input, caches included, has more tokens than this."""

    above_input_tokens: Annotated[int, Field(ge=0)]
    rates: Rates


class TierRates(Record):
    """Rates of one service tier."""

    rates: Rates
    long: list[LongRates] = Field(default_factory=list, max_length=10)

    @model_validator(mode="after")
    def _thresholds_ascend(self) -> Self:
        thresholds = [one.above_input_tokens for one in self.long]
        if thresholds != sorted(set(thresholds)):
            raise ValueError("long: aboveInputTokens must ascend and none may come twice")
        return self


class ModelPrices(TierRates):
    """Prices of the model that calls name `model`, exactly so."""

    model: str = Field(min_length=1, max_length=200)
    priced_as: str = Field(min_length=1, max_length=200, description="The model's id in the source.")
    provider: str = Field(min_length=1, max_length=100)
    service_tiers: dict[str, TierRates] = Field(
        default_factory=dict,
        max_length=20,
        description="By the name that calls give; a missing one is unknown.",
    )


class PriceSource(Record):
    """Where the prices come from."""

    package: str = Field(min_length=1, max_length=100)
    version: str = Field(min_length=1, max_length=50)
    data_digest: Digest = Field(description="Of the package's file with the prices.")


class PriceReview(Record):
    """Who compared the sheet with the providers' own lists, and when."""

    by: str = Field(min_length=1, max_length=200)
    on: date


class PriceSheet(VersionedRecord):
    """Prices of named models on a day. A run pins the digest of the sheet that it used."""

    valid_on: date
    source: PriceSource
    reviewed: PriceReview | None = Field(default=None, description="None: no person has checked it yet.")
    models: Annotated[list[ModelPrices], Field(min_length=1, max_length=1000)]

    @model_validator(mode="after")
    def _one_price_a_model(self) -> Self:
        seen: set[str] = set()
        for one in self.models:
            if one.model in seen:
                raise ValueError(f"models: {one.model} is listed twice; keep one")
            seen.add(one.model)
        return self
