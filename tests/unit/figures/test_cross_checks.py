"""The same figures from independent implementations: statsmodels, scipy, Harbor."""

import random
from collections.abc import Sequence
from math import comb
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm  # type: ignore[import-untyped]
from harbor.utils.pass_at_k import compute_pass_at_k_by_evals
from scipy import stats

from assay.core.figures.clustered import bell_mccaffrey_df, sampling_error
from assay.core.figures.drift import drift
from assay.core.figures.passk import pass_hat, pass_k
from assay.core.figures.power import minimum_detectable_effect
from assay.core.figures.scores import clusters_of, strict_scores
from assay.core.figures.student import t_cdf, t_quantile

from .samples import VECTORS, attempts_of, ledger_of, passes

pytestmark = pytest.mark.unit

QNA_SIZES: list[int] = VECTORS["V8_cr2"]["qna_cluster_sizes"]
QNA = [f"c{i}" for i, size in enumerate(QNA_SIZES) for _ in range(size)]


@pytest.mark.parametrize("seed", range(5))
def test_cr1_and_iid_equal_statsmodels(seed: int) -> None:
    seeded = random.Random(seed)
    attempts = passes([seeded.randint(0, 3) for _ in QNA], QNA)
    scores = strict_scores(attempts)
    found = sampling_error(scores, clusters_of(attempts.ledger.tasks))
    y = np.array([float(value) for value in scores.values()])
    groups = np.unique(QNA, return_inverse=True)[1]
    model = sm.OLS(y, np.ones_like(y))
    clustered = model.fit(cov_type="cluster", cov_kwds={"groups": groups})
    assert found.cr1 == pytest.approx(clustered.bse[0], rel=1e-12)
    assert found.iid == pytest.approx(model.fit().bse[0], rel=1e-12)


@pytest.mark.parametrize("sizes", [QNA_SIZES, [3, 3, 1, 1], [5] * 8, [1, 2]])
def test_cr2_and_its_degrees_of_freedom_equal_the_general_formulas(sizes: Sequence[int]) -> None:
    """CR2 and Bell–McCaffrey as written for any regression, with matrices, on the constant."""
    seeded, n = random.Random(2), sum(sizes)
    group = np.repeat(np.arange(len(sizes)), sizes)
    x = np.ones((n, 1))
    bread = np.linalg.inv(x.T @ x)
    hat = x @ bread @ x.T
    attempts = passes([seeded.randint(0, 3) for _ in range(n)], [f"c{g}" for g in group])
    y = np.array([float(value) for value in strict_scores(attempts).values()])
    residual = y - hat @ y
    meat, columns = 0.0, []
    for one in range(len(sizes)):
        own = group == one
        values, vectors = np.linalg.eigh(np.eye(own.sum()) - hat[np.ix_(own, own)])
        adjust = vectors @ np.diag(values**-0.5) @ vectors.T
        meat += float((x[own].T @ adjust @ residual[own])[0] ** 2)
        columns.append((np.eye(n) - hat)[:, own] @ adjust @ x[own] @ bread)
    g = np.hstack(columns)
    eigenvalues = np.linalg.eigvalsh(g.T @ g)
    found = sampling_error(strict_scores(attempts), clusters_of(attempts.ledger.tasks))
    assert found.cr2 == pytest.approx((float(bread[0, 0]) ** 2 * meat) ** 0.5, rel=1e-10)
    df = float(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())
    assert bell_mccaffrey_df(sizes) == pytest.approx(df, rel=1e-10)


@pytest.mark.parametrize("df", [1, 1.7, 2.239488117001828, 3, 7.85, 10, 64.3, 112, 1000, 33332, 1e5])
def test_student_t_equals_scipy(df: float) -> None:
    for p in (0.001, 0.025, 0.2, 0.5, 0.6, 0.8, 0.95, 0.975, 0.9999):
        assert t_quantile(p, df) == pytest.approx(float(stats.t.ppf(p, df)), rel=1e-11, abs=1e-15)
    for t in (-30, -2.5, -0.1, 0.3, 1, 4, 12):
        assert t_cdf(t, df) == pytest.approx(float(stats.t.cdf(t, df)), rel=1e-11)


def test_the_detectable_effect_at_ten_degrees_of_freedom() -> None:
    assert minimum_detectable_effect(1, 10) == pytest.approx(3.107, abs=5e-4)
    assert minimum_detectable_effect(1, 1e5) == pytest.approx(2.8016, abs=1e-4)


@pytest.mark.parametrize(("first", "second"), [(0, 3), (1, 3), (3, 3), (5, 2), (0, 5)])
def test_drift_of_one_task_is_the_hypergeometric_test(first: int, second: int) -> None:
    found = drift(passes([first], repetitions=5), passes([second], repetitions=5), 0.05)
    total = first + second
    day2 = np.arange(0, 6)
    share = stats.hypergeom.pmf(day2, 10, total, 5)
    as_far = np.abs(2 * day2 - total) >= abs(second - first)
    assert found.p_shift == pytest.approx(float(share[as_far].sum()), rel=1e-12)
    assert found.p_any == pytest.approx(found.p_shift, rel=1e-14)


def test_pass_hat_is_a_hypergeometric_probability() -> None:
    for n, successes, k in ((5, 3, 2), (10, 7, 4), (3, 0, 1), (3, 3, 3)):
        wanted = float(stats.hypergeom.pmf(k, n, successes, k))
        assert float(pass_hat(n, successes, k) or 0) == pytest.approx(wanted, rel=1e-12)


def trial(task: str, reward: float | None) -> Any:
    """What Harbor's function reads of a trial's result."""
    return SimpleNamespace(
        agent_info=SimpleNamespace(name="agent", model_info=None),
        source="ledger",
        reward_valid=reward is not None,
        verifier_result=None if reward is None else SimpleNamespace(rewards={"reward": reward}),
        task_name=task,
    )


def test_pass_at_k_equals_harbors_where_every_attempt_is_valid() -> None:
    seeded = random.Random(3)
    rewards = [[float(seeded.random() < 0.4) for _ in range(10)] for _ in range(25)]
    trials = [trial(f"t{i}", reward) for i, found in enumerate(rewards) for reward in found]
    (theirs,) = compute_pass_at_k_by_evals(trials).values()
    attempts = attempts_of(ledger_of([str(i) for i in range(25)], 10), rewards)
    assert set(theirs) == {2, 4, 5, 8, 10}
    for k, value in theirs.items():
        assert float(pass_k(attempts, k).pass_at or 0) == pytest.approx(value, rel=1e-12)


def test_where_attempts_are_missing_harbors_figure_is_the_one_without_them() -> None:
    rewards: list[list[float | None]] = [[1.0, 0.0, None, None], [1.0, 0.0, 0.0, 0.0]]
    trials = [trial(f"t{i}", reward) for i, found in enumerate(rewards) for reward in found]
    (theirs,) = compute_pass_at_k_by_evals(trials).values()
    found = pass_k(attempts_of(ledger_of("ab", 4), rewards), 2)
    assert float(found.pass_at or 0) == theirs[2] == 0.75
    assert float(found.pass_at_strict or 0) == 0.5
    assert 1 - comb(3, 2) / comb(4, 2) == 0.5
