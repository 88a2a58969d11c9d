"""Every vector of the method notes, and that the wrong values which they name are not returned."""

from decimal import Decimal
from fractions import Fraction
from math import hypot

import pytest

from assay.core.figures.attempts import collect
from assay.core.figures.clustered import bell_mccaffrey_df, sampling_error
from assay.core.figures.drift import drift
from assay.core.figures.index import ComponentPlan, ComponentResult, index
from assay.core.figures.known_means import known_mean
from assay.core.figures.observations import Observation, Refusal
from assay.core.figures.paired import paired_shift
from assay.core.figures.passk import pass_k
from assay.core.figures.rates import attempt_rates, suite_rate
from assay.core.figures.repeat_noise import repeat_noise
from assay.core.figures.scores import clusters_of, score, strict_scores
from assay.core.figures.signflip import Stratum, sign_flip_test
from assay.core.figures.student import t_quantile

from .samples import VECTORS, attempts_of, ledger_of, passes

pytestmark = pytest.mark.unit

CLUSTERS = VECTORS["V3_cluster"]["cluster"]
CANDIDATE = passes(VECTORS["V3_cluster"]["cand_counts_of_3"], CLUSTERS)
BASELINE = passes(VECTORS["V4_paired"]["base_counts_of_3"], CLUSTERS, variant="baseline")


def ten_places(value: float) -> object:
    """Equal to ten places, as the vectors are rounded."""
    return pytest.approx(value, abs=5.1e-11, rel=0)


def all_digits(value: float) -> object:
    return pytest.approx(value, rel=1e-13)


def test_v1_pass_k() -> None:
    vector = VECTORS["V1_pass_k"]
    attempts = attempts_of(ledger_of("ABCD"), list(vector["tasks"].values()))
    for k in (1, 2, 3):
        found = pass_k(attempts, k)
        assert float(found.pass_at or 0) == ten_places(vector["pass_at"][str(k)])
        assert float(found.pass_hat or 0) == ten_places(vector["pass_hat"][str(k)])
        assert (found.pass_at_strict, found.pass_hat_strict) == (found.pass_at, found.pass_hat)


def test_v1_unequal_repetitions_weigh_tasks_not_attempts() -> None:
    vector = VECTORS["V1_pass_k"]["unequal"]
    attempts = attempts_of(ledger_of("AB"), list(vector["tasks"].values()))
    assert score(attempts).valid == vector["macro_pass1"]
    assert score(attempts).valid != vector["micro_mean_wrong"]
    assert pass_k(attempts, 1).pass_at == vector["macro_pass1"]


def test_v2_index_of_a_published_row() -> None:
    vector = VECTORS["V2_index"]
    results, suite = {}, {}
    for name in ("deepswe", "atlas", "tb4"):
        successes, total = vector[name]
        counts = [3] * (successes // 3) + [successes % 3]
        attempts = passes(counts + [0] * (total // 3 - len(counts)))
        error = sampling_error(strict_scores(attempts), clusters_of(attempts.ledger.tasks))
        results[name] = ComponentResult(score(attempts), error, repeat_noise(attempts))
        suite[name] = ComponentPlan(total // 3, 3)
    assert [float(result.score.strict or 0) for result in results.values()] == vector["components"]
    found = index(suite, results)
    assert found.value is not None
    assert float(found.value) == vector["index"]
    assert float(found.value) != pytest.approx(vector["pooled_wrong"], abs=1e-3)
    assert (found.components, found.tasks, found.attempts) == (3, 303, 909)


def test_v3_clustered_error() -> None:
    vector = VECTORS["V3_cluster"]
    found = sampling_error(strict_scores(CANDIDATE), clusters_of(CANDIDATE.ledger.tasks))
    assert float(found.mean) == ten_places(vector["mean"])
    assert found.iid == ten_places(vector["se_iid"])
    assert found.cr1 == ten_places(vector["se_cr1"])
    assert found.cr1_interval is not None
    assert found.cr1_interval.degrees_of_freedom == 3
    assert t_quantile(0.975, 3) == ten_places(vector["t_df3_975"])
    assert found.standard_error not in (found.iid, found.cr1, ten_places(vector["se_cr0"]))


def test_v4_paired_shift() -> None:
    vector = VECTORS["V4_paired"]
    found = paired_shift(CANDIDATE, BASELINE)
    assert score(BASELINE).strict == Fraction(5, 12)
    assert found.shift == Fraction(1, 8) == Fraction(vector["delta"])
    assert found.error.iid == ten_places(vector["se_iid_paired"])
    assert found.error.cr1 == ten_places(vector["se_cr1_paired"])
    # CR1 is narrower than independent tasks here, and may not narrow the interval.
    assert found.error.standard_error == found.error.iid
    assert found.error.standard_error != pytest.approx(vector["se_unpaired_wrong"], abs=1e-3)
    assert found.error.cr1_interval is not None
    assert found.error.cr1_interval.half_width == pytest.approx(0.194109, abs=5e-7)


def test_v4_sign_flips_toss_clusters_not_tasks() -> None:
    vector = VECTORS["V4_paired"]
    found = paired_shift(CANDIDATE, BASELINE)
    assert (
        found.sign_flip.p_value
        == vector["signflip_cluster_p"]
        == VECTORS["V10_more"]["sign_flip_exact_E4_clusters"]
    )
    own = {task: task for task in found.stratum.clusters}
    assert sign_flip_test([Stratum(found.stratum.differences, own)]).p_value == vector["signflip_task_p"]
    assert not found.sign_flip.can_reach_significance


def test_v4_drift_of_the_baseline() -> None:
    vector = VECTORS["V4_paired"]["drift"]
    found = drift(BASELINE, passes(vector["day2_counts"], CLUSTERS, variant="baseline"), 0.01)
    assert float(found.shift or 0) == ten_places(vector["delta"])
    assert found.repeat_noise == ten_places(vector["se_run"])
    assert found.p_shift == all_digits(vector["exact_p"])


def test_v5_mean_cost_leaves_unknown_out() -> None:
    vector = VECTORS["V5_cost"]
    costs = [one["cost"] and Decimal(one["cost"]) for one in vector["attempts"]]
    found = known_mean(costs)
    assert found.mean == Fraction(vector["mean_cost"])
    assert (found.n, found.coverage) == (vector["n_cost"], Fraction(vector["coverage"]))
    assert float(found.mean or 0) != pytest.approx(vector["missing_as_zero_wrong"], abs=1e-3)
    assert found.total == Fraction("1.94")
    assert found.total_is_lower_bound


def test_v6_rates_are_weighted_by_component() -> None:
    vector = VECTORS["V6_rates"]
    rates = {}
    for name in "DTQ":
        attempts, fallback, blocked = (vector[name][key] for key in ("attempts", "fallback", "blocked"))
        kinds = [Refusal.FALLBACK] * fallback + [Refusal.BLOCKED] * blocked
        kinds += [Refusal.NONE] * (attempts - len(kinds))
        ledger = ledger_of([str(i) for i in range(attempts // 3)])
        observed = [
            Observation(ledger.tasks[i // 3].task, "v", i % 3, 0.0, refusal=kind)
            for i, kind in enumerate(kinds)
        ]
        rates[name] = attempt_rates(collect(ledger, observed)["v"])
    refusal = suite_rate({name: rate.refusal for name, rate in rates.items()})
    blocked_rate = suite_rate({name: rate.blocked for name, rate in rates.items()})
    assert float(refusal.value or 0) == ten_places(vector["index_refusal_rate"])
    assert float(blocked_rate.value or 0) == ten_places(vector["index_blocked_rate"])
    assert refusal.value != Fraction(4, 30)


def test_v8_cr2_and_its_degrees_of_freedom() -> None:
    vector = VECTORS["V8_cr2"]
    alone = sampling_error(strict_scores(CANDIDATE), clusters_of(CANDIDATE.ledger.tasks))
    assert alone.interval is not None
    assert alone.cr2 == all_digits(vector["E3"]["cr2"])
    assert alone.interval.degrees_of_freedom == all_digits(vector["E3"]["bm_df"])
    assert t_quantile(0.975, alone.interval.degrees_of_freedom) == all_digits(vector["E3"]["t975"])
    shift = paired_shift(CANDIDATE, BASELINE)
    assert shift.error.interval is not None
    assert shift.error.cr2 == all_digits(vector["E4"]["cr2"])
    assert shift.error.interval.degrees_of_freedom == all_digits(vector["E4"]["bm_df"])
    assert shift.error.interval.standard_error == all_digits(vector["E4"]["se"])
    assert shift.error.interval.half_width == all_digits(vector["E4"]["half"])
    assert shift.minimum_detectable_effect == all_digits(vector["E4"]["mde"])
    assert bell_mccaffrey_df(vector["qna_cluster_sizes"]) == all_digits(vector["qna_bm_df"])


def test_v9_two_drift_tests() -> None:
    vector = VECTORS["V9_drift"]
    days = passes(vector["baseline_day1"], CLUSTERS), passes(vector["baseline_day2"], CLUSTERS)
    found = drift(*days, 0.01)
    assert (found.p_shift, found.p_any) == (vector["E4"]["p_shift"], vector["E4"]["p_any"])
    cancelling = vector["cancelling"]
    found = drift(passes(cancelling["day1"]), passes(cancelling["day2"]), 0.01)
    assert found.p_shift == cancelling["p_shift"]
    assert found.p_any == all_digits(cancelling["p_any"])


def test_v10_cluster_mean() -> None:
    found = score(CANDIDATE)
    assert float(found.cluster_mean or 0) == VECTORS["V10_more"]["cluster_mean_score_E3"]
    assert found.cluster_mean != found.strict


def test_repeat_noise_of_the_shift_counts_both_variants() -> None:
    both = [repeat_noise(one).standard_error or 0 for one in (CANDIDATE, BASELINE)]
    assert paired_shift(CANDIDATE, BASELINE).repeat_noise.standard_error == all_digits(hypot(*both))
