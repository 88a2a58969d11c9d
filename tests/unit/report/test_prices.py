"""Costs: method.md §4.8 and E5, BAR 7, and the package that prices come from."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from genai_prices import Usage, calc_price
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.adapters.list_prices import PriceUnknownError, build_price_sheet
from assay.api.attempt_record import CallUsage
from assay.api.evidence import TokenCounts
from assay.api.price_sheet import PriceSheet
from assay.core.prices import Prices
from assay.core.report import refuse_other_prices
from assay.core.score_input import ReportRefusedError
from tests.unit.report.samples import collection, record, report, row

DAY = date(2026, 11, 30)
MODELS = ("claude-opus-5-5", "gpt-6.1-sol", "claude-sonnet-5-5")

_sheet = build_price_sheet(MODELS, DAY)


def call(model: str | None = "claude-opus-5-5", tier: str | None = None, **tokens: Any) -> CallUsage:
    known = {"cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0, "reasoning": 0}
    return CallUsage(model=model, service_tier=tier, tokens=TokenCounts.model_validate({**known, **tokens}))


def sheet(**rates: Any) -> PriceSheet:
    """One model `m` at 4/.2/5/20, as in E5."""
    price = {"input": "4", "cache_read": "0.2", "cache_write_5m": "5", "output": "20"}
    model = {"model": "m", "priced_as": "m", "provider": "p", "rates": {**price, **rates}}
    document = _sheet.model_dump() | {"models": [model]}
    return PriceSheet.model_validate(document)


E5_A: dict[str, Any] = {"input": 1_000_000, "cache_read": 900_000, "cache_write_5m": 60_000, "output": 20_000}
E5_B: dict[str, Any] = {"input": 200_000, "output": 5_000}


def test_worked_example_of_the_method() -> None:
    assert Prices(sheet()).of_call(call("m", **E5_A)).usd == Decimal("1.04")
    assert Prices(sheet()).of_call(call("m", **E5_B)).usd == Decimal("0.9")


def test_mean_cost_leaves_out_what_is_unknown() -> None:
    records = [
        record("a", calls=[call("m", **E5_A)]),
        record("b", calls=[call("m", **E5_B)]),
        record("c", calls=None),
    ]
    cost = row(report(records, sheet=sheet())).usage.cost_usd
    assert (cost.mean, cost.n, cost.planned) == (Decimal("0.97"), 2, 3)
    assert cost.mean != Decimal("0.646667")
    assert (cost.total, cost.total_is_lower_bound) == (Decimal("1.94"), True)


def test_cost_of_replaced_tries_stands_beside() -> None:
    lost = record("a", retained=False, outcome="Disrupted", reward=None, calls=[call("m", **E5_A)])
    unknown = lost.model_copy(update={"try_number": 2, "calls": None})
    found = row(report([lost, unknown, record("a", try_number=3, calls=[call("m", **E5_B)])], sheet=sheet()))
    assert found.usage.cost_usd.total == Decimal("0.9")
    assert (found.replaced.cost_usd.total, found.replaced.cost_usd.total_is_lower_bound) == (
        Decimal("1.04"),
        True,
    )


@pytest.mark.parametrize(
    ("used", "reason"),
    [
        (call("other", input=1, output=1), "no model other"),
        (call(None, input=1, output=1), "names no model"),
        (call("claude-opus-5-5", tier="turbo", input=1, output=1), "no service tier turbo"),
        (call(input=None, output=1), "no token counts"),
        (call(input=10, output=1, cache_read=None), "does not say its cache reads"),
        (call(input=10, output=1, cache_write_5m=None), "does not say its cache writes"),
        (call(input=10, output=1, cache_read=11), "more cached tokens than input tokens"),
    ],
)
def test_what_is_unknown_is_unknown_and_never_0(used: CallUsage, reason: str) -> None:
    cost = Prices(_sheet).of_calls([call(input=10, output=1), used])
    assert cost.usd is None
    assert reason in (cost.reason or "")


def test_a_tier_is_a_cliff_for_each_call() -> None:
    prices = Prices(_sheet)
    long = call("gpt-6.1-sol", input=300_000, output=1_000)
    assert prices.of_call(long).usd == Decimal("1.215")
    half = call("gpt-6.1-sol", input=150_000, output=500)
    assert prices.of_calls([half, half]).usd == Decimal("0.61")


def test_reasoning_with_its_own_price_is_taken_out_of_output() -> None:
    prices = Prices(sheet(reasoning="40"))
    assert prices.of_call(call("m", input=0, output=1_000_000, reasoning=250_000)).usd == 25
    assert prices.of_call(call("m", input=0, output=1, reasoning=None)).usd is None


def test_a_try_without_calls_costs_nothing() -> None:
    cost = row(report([record("a", calls=[])])).usage.cost_usd
    assert (cost.mean, cost.n) == (Decimal(0), 1)


@settings(deadline=None)
@given(
    model=st.sampled_from(MODELS),
    parts=st.tuples(*[st.integers(0, 200_000)] * 3),
    output=st.integers(0, 100_000),
)
def test_costs_are_the_package_s_own(model: str, parts: tuple[int, int, int], output: int) -> None:
    fresh, read, written = parts
    total = fresh + read + written
    own = Prices(_sheet).of_call(
        call(model, input=total, cache_read=read, cache_write_5m=written, output=output)
    )
    usage = Usage(
        input_tokens=total, cache_read_tokens=read, cache_write_tokens=written, output_tokens=output
    )
    at = datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert own.usd == calc_price(usage, model, genai_request_timestamp=at).total_price


def test_a_sheet_says_where_it_is_from_and_is_the_same_every_time() -> None:
    assert (_sheet.source.package, _sheet.valid_on) == ("genai-prices", DAY)
    assert Prices(build_price_sheet(reversed(MODELS), DAY)).digest == Prices(_sheet).digest
    assert _sheet.reviewed is None


def test_a_service_tier_has_its_own_prices() -> None:
    batch = Prices(_sheet).of_call(call("claude-opus-5-5", tier="batch", input=1_000_000, output=0))
    assert batch.usd == 2


def test_an_unknown_model_makes_no_sheet() -> None:
    with pytest.raises(PriceUnknownError, match=r"no-such-model-9: genai-prices .* has no such model"):
        build_price_sheet(["no-such-model-9"], DAY)


def test_a_sheet_for_other_models_is_refused_where_a_person_chose_it_and_is_a_gap_in_a_run() -> None:
    records = [record("a", calls=[call(input=1, output=1)])]
    with pytest.raises(
        ReportRefusedError, match=r"the price sheet prices m, the records called claude-opus-5-5"
    ):
        refuse_other_prices(collection(records, sheet()))
    cost = row(report(records, sheet=sheet())).usage.cost_usd
    assert (cost.mean, cost.n, cost.reason) == (None, 0, "the price sheet has no model claude-opus-5-5")


def test_a_sheet_without_one_of_the_models_leaves_a_gap_that_is_named() -> None:
    records = [record("a", calls=[call("m", **E5_B)]), record("b", calls=[call("other", input=1, output=1)])]
    found = report(records, sheet=sheet())
    assert found.prices is not None
    assert found.prices.unknown_models == ["other"]
    assert (row(found).usage.cost_usd.n, row(found).usage.cost_usd.planned) == (1, 2)
    assert "no model other" in (row(found).usage.cost_usd.reason or "")
