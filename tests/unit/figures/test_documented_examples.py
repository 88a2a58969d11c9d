"""docs/figures.md against the code: every example on the page is computed and compared to its digits."""

import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from assay.api.attempt_record import CallUsage
from assay.api.evidence import TokenCounts
from assay.api.price_sheet import ModelPrices, PriceSheet, PriceSource, Rates
from assay.core.figures.attempts import VariantAttempts, collect
from assay.core.figures.clustered import SamplingError, sampling_error
from assay.core.figures.drift import Drift, drift
from assay.core.figures.holm import holm
from assay.core.figures.index import ComponentPlan, ComponentResult, index, index_shift
from assay.core.figures.known_means import known_mean
from assay.core.figures.observations import HackingVerdict, Observation
from assay.core.figures.paired import paired_shift
from assay.core.figures.passk import pass_k
from assay.core.figures.rates import Rate, attempt_rates, suite_rate
from assay.core.figures.repeat_noise import repeat_noise
from assay.core.figures.scores import clusters_of, score, strict_scores
from assay.core.figures.student import t_quantile
from assay.core.prices import Prices

from .samples import attempts_of, ledger_of, passes

pytestmark = pytest.mark.unit

PAGE = (Path(__file__).parents[3] / "docs" / "figures.md").read_text()
EXAMPLES = dict(re.findall(r"^```example (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))

type Numbers = Mapping[str, float | Fraction | Decimal | None]


def given_attempts() -> dict[str, VariantAttempts]:
    """The block of passes on the page; bars part clusters."""
    (block,) = re.findall(r"^```given\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    found = {}
    for line in block.splitlines():
        name, text = line.split(maxsplit=1)
        groups = [group.split() for group in text.split("|")]
        clusters = [f"c{i}" for i, group in enumerate(groups) for _ in group]
        found[name] = passes([int(count) for group in groups for count in group], clusters, variant=name)
    return found


GIVEN = given_attempts()


def error_of(attempts: VariantAttempts) -> SamplingError:
    return sampling_error(strict_scores(attempts), clusters_of(attempts.ledger.tasks))


def unequal() -> Numbers:
    return {"valid": score(attempts_of(ledger_of("ab"), [[1.0, 1.0, 1.0], [0.0]])).valid}


def missing() -> Numbers:
    found = score(attempts_of(ledger_of("a", 4), [[1.0, 1.0, None, None]]))
    return {"strict": found.strict, "valid": found.valid, "coverage": found.coverage}


def scores() -> Numbers:
    found = score(GIVEN["candidate"])
    return {"strict": found.strict, "cluster mean": found.cluster_mean}


def pass_at_k() -> Numbers:
    found = [pass_k(passes([3, 2, 1, 0]), k) for k in (1, 2, 3)]
    return {f"pass@{one.k}": one.pass_at for one in found} | {f"pass^{one.k}": one.pass_hat for one in found}


def rates() -> Numbers:
    return {
        "refusal": suite_rate({"D": Rate(1, 12), "T": Rate(3, 6), "Q": Rate(0, 12)}).value,
        "blocked": suite_rate({"D": Rate(0, 12), "T": Rate(2, 6), "Q": Rate(0, 12)}).value,
    }


def errors() -> Numbers:
    found = error_of(GIVEN["candidate"])
    assert found.interval is not None
    return {
        "iid": found.iid,
        "CR1": found.cr1,
        "CR2": found.cr2,
        "df": found.interval.degrees_of_freedom,
        "t": t_quantile(0.975, found.interval.degrees_of_freedom),
        "half width": found.interval.half_width,
        "repeat noise": repeat_noise(GIVEN["candidate"]).standard_error,
    }


def shift() -> Numbers:
    found = paired_shift(GIVEN["candidate"], GIVEN["baseline"])
    assert found.error.interval is not None
    assert found.error.cr1_interval is not None
    return {
        "shift": found.shift,
        "iid": found.error.iid,
        "CR1": found.error.cr1,
        "CR2": found.error.cr2,
        "half width": found.error.interval.half_width,
        "CR1 half width": found.error.cr1_interval.half_width,
        "MDE": found.minimum_detectable_effect,
        "sign flip p": found.sign_flip.p_value,
        "smallest p": found.sign_flip.smallest_possible_p,
    }


def p_values(found: Drift) -> Numbers:
    return {"p shift": found.p_shift, "p any": found.p_any}


def baseline_drift() -> Numbers:
    found = drift(GIVEN["baseline"], GIVEN["baseline_day2"], 0.01)
    return {
        "shift": found.shift,
        "repeat noise": found.repeat_noise,
        **p_values(found),
        "detectable": found.detectable.size,
    }


def cancelling_drift() -> Numbers:
    return p_values(drift(passes([3] * 15 + [0] * 15), passes([0] * 15 + [3] * 15), 0.01))


def result(attempts: VariantAttempts) -> ComponentResult:
    return ComponentResult(score(attempts), error_of(attempts), repeat_noise(attempts))


def published_index() -> Numbers:
    suite, results = {}, {}
    for successes, total in ((229, 339), (230, 372), (110, 198)):
        counts = [3] * (successes // 3) + [successes % 3]
        attempts = passes(counts + [0] * (total // 3 - len(counts)))
        suite[str(total)] = ComponentPlan(total // 3, 3)
        results[str(total)] = result(attempts)
    return {"index": index(suite, results).value}


def first_tries() -> Numbers:
    ledger = ledger_of("a", 2)
    again = Observation("t000", "v", 0, reward=1.0, first_try_reward=None)
    found = score(collect(ledger, [again, Observation("t000", "v", 1, 1.0, 1.0)])["v"])
    return {
        "strict": found.strict,
        "first try": found.first_try_strict,
        "first try valid": found.first_try_valid,
    }


def hacking() -> Numbers:
    observations = [
        Observation("t000", "v", 0, 0.0, hacking=HackingVerdict.FLAGGED),
        Observation("t000", "v", 1, 1.0, hacking=HackingVerdict.CLEAN),
        Observation("t001", "v", 0, 1.0, hacking=HackingVerdict.CLEAN),
        Observation("t001", "v", 1, 0.0),
    ]
    found = collect(ledger_of("ab", 2), observations)["v"]
    return {"strict": score(found).strict, "reward hacking": attempt_rates(found).reward_hacking.value}


def adjusted() -> Numbers:
    family = holm({"a": 0.01, "b": 0.04, "c": 0.03, "untested": None})
    return {name: family[name].adjusted for name in "abc"}


def two_components() -> Numbers:
    suite = {name: ComponentPlan(8, 3) for name in ("first", "second")}
    mine = {"first": GIVEN["candidate"], "second": GIVEN["baseline_day2"]}
    theirs = dict.fromkeys(suite, GIVEN["baseline"])
    own, base = (index(suite, {name: result(one) for name, one in found.items()}) for found in (mine, theirs))
    shift = index_shift(own, base, {name: paired_shift(mine[name], theirs[name]) for name in suite})
    assert own.interval is not None
    assert shift.interval is not None
    assert shift.sign_flip is not None
    return {
        "index": own.value,
        "standard error": own.interval.standard_error,
        "df": own.interval.degrees_of_freedom,
        "half width": own.interval.half_width,
        "repeat noise": own.repeat_noise,
        "shift": shift.shift,
        "shift half width": shift.interval.half_width,
        "sign flip p": shift.sign_flip.p_value,
    }


def costs() -> Numbers:
    usd = {"input": "4", "cache_read": "0.2", "cache_write_5m": "5", "output": "20"}
    model = ModelPrices(
        model="m",
        priced_as="m",
        provider="p",
        rates=Rates(**{kind: Decimal(one) for kind, one in usd.items()}),
    )
    source = PriceSource(package="example", version="1", data_digest=f"sha256:{'0' * 64}")
    prices = Prices(PriceSheet(valid_on=date(2026, 11, 30), source=source, models=[model]))
    counts = {
        "a": TokenCounts(input=1_000_000, cache_read=900_000, cache_write_5m=60_000, output=20_000),
        "b": TokenCounts(input=200_000, cache_read=0, cache_write_5m=0, output=5_000),
        "c": TokenCounts(),
    }
    usd_of = {name: prices.of_call(CallUsage(model="m", tokens=one)).usd for name, one in counts.items()}
    found = known_mean(usd_of.values())
    return {
        "a": usd_of["a"],
        "b": usd_of["b"],
        "mean": found.mean,
        "n": found.n,
        "coverage": found.coverage,
        "total": found.total,
    }


COMPUTED: Mapping[str, Callable[[], Numbers]] = {
    "E1-unequal": unequal,
    "missing": missing,
    "E3-score": scores,
    "E1": pass_at_k,
    "E5-rates": rates,
    "E3": errors,
    "E4": shift,
    "E4-drift": baseline_drift,
    "E4-cancelling": cancelling_drift,
    "E2": published_index,
    "first-try": first_tries,
    "hacking": hacking,
    "holm": adjusted,
    "two-components": two_components,
    "E5-cost": costs,
}


def test_every_example_on_the_page_is_computed() -> None:
    assert set(EXAMPLES) == set(COMPUTED)


@pytest.mark.parametrize("name", COMPUTED)
def test_the_page_prints_what_the_code_computes(name: str) -> None:
    printed = dict(re.split(r"\s{2,}", line) for line in EXAMPLES[name].splitlines())
    computed = COMPUTED[name]()
    assert list(printed) == list(computed)
    for figure, text in printed.items():
        value = computed[figure]
        assert value is not None
        if "e" in text:
            assert float(value) == pytest.approx(float(text), rel=1e-12), figure
        else:
            places = len(text.partition(".")[2])
            assert f"{value:.{places}f}" == text, figure
