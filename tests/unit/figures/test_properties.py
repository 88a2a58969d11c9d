"""What must hold for any records."""

import random
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assay.core.figures.attempts import collect
from assay.core.figures.clustered import bell_mccaffrey_df, sampling_error
from assay.core.figures.drift import drift
from assay.core.figures.index import ComponentPlan, ComponentResult, index
from assay.core.figures.observations import LedgerTasks, Observation, TaskFacts
from assay.core.figures.paired import paired_shift
from assay.core.figures.passk import pass_k
from assay.core.figures.rates import attempt_rates
from assay.core.figures.repeat_noise import repeat_noise
from assay.core.figures.scores import clusters_of, score, scores_by, strict_scores
from assay.core.figures.student import t_quantile

from .samples import untimed

pytestmark = pytest.mark.unit

REPETITIONS = 3
rewards = st.one_of(st.none(), st.sampled_from([0.0, 1.0, 1.0, 0.25, 0.1]))
tables = st.lists(
    st.tuples(st.sampled_from("abcde"), st.lists(rewards, min_size=REPETITIONS, max_size=REPETITIONS)),
    min_size=1,
    max_size=12,
)
type Table = list[tuple[str, list[float | None]]]


def ledger_of(table: Table) -> LedgerTasks:
    facts = (TaskFacts(f"t{i}", cluster, language=cluster) for i, (cluster, _) in enumerate(table))
    return LedgerTasks("ledger", tuple(facts), REPETITIONS)


def records_of(table: Table) -> list[Observation]:
    """Two variants: the table, and its rewards in another order."""
    return [
        Observation(f"t{i}", variant, repetition, reward, first_try_reward=found[0])
        for i, (_, found) in enumerate(table)
        for variant, ordered in (("candidate", found), ("baseline", found[::-1]))
        for repetition, reward in enumerate(ordered)
    ]


def all_figures(ledger: LedgerTasks, records: Sequence[Observation]) -> list[object]:
    """Every figure of both variants, to be compared digit by digit."""
    both = collect(ledger, records, ["candidate", "baseline"])
    figures: list[object] = []
    for name in ("candidate", "baseline"):
        one = both[name]
        figures += [
            score(one),
            scores_by(one, "language"),
            pass_k(one, 2),
            attempt_rates(one),
            repeat_noise(one),
        ]
        figures.append(sampling_error(strict_scores(one), clusters_of(ledger.tasks)))
    if all(one.retained for one in both.values()):
        figures.append(paired_shift(both["candidate"], both["baseline"]))
        figures.append(drift(both["baseline"], both["candidate"], 0.01))
    return figures


@untimed
@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_records_changes_nothing(table: Table, order: random.Random) -> None:
    records = records_of(table)
    shuffled = order.sample(records, len(records))
    assert all_figures(ledger_of(table), shuffled) == all_figures(ledger_of(table), records)


@untimed
@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_tasks_in_the_ledger_changes_nothing(table: Table, order: random.Random) -> None:
    ledger = ledger_of(table)
    shuffled = LedgerTasks("ledger", tuple(order.sample(ledger.tasks, len(ledger.tasks))), REPETITIONS)
    assert all_figures(shuffled, records_of(table)) == all_figures(ledger, records_of(table))


@untimed
@given(tables, st.data())
def test_a_duplicate_record_changes_nothing(table: Table, data: st.DataObject) -> None:
    records = records_of(table)
    again = data.draw(st.lists(st.sampled_from(records), max_size=5))
    assert all_figures(ledger_of(table), records + again) == all_figures(ledger_of(table), records)


@untimed
@given(tables, st.data())
def test_two_halves_merged_equal_the_whole(table: Table, data: st.DataObject) -> None:
    records = records_of(table)
    cut = data.draw(st.integers(0, len(records)))
    assert all_figures(ledger_of(table), records[cut:] + records[:cut]) == all_figures(
        ledger_of(table), records
    )


@untimed
@given(tables)
def test_strict_is_at_most_valid(table: Table) -> None:
    for one in collect(ledger_of(table), records_of(table)).values():
        found = score(one)
        if found.strict is not None and found.valid is not None:
            assert found.strict <= found.valid
            assert (found.strict == found.valid) or found.coverage < 1
        if found.first_try_strict is not None and found.first_try_valid is not None:
            assert found.first_try_strict <= found.first_try_valid


clustered = st.lists(
    st.tuples(st.integers(0, 3).map(lambda n: Fraction(n, 3)), st.sampled_from("abcdef")),
    min_size=2,
    max_size=20,
)


@untimed
@given(clustered, st.data())
def test_splitting_clusters_never_narrows_the_interval_below_that_of_independent_tasks(
    tasks: list[tuple[Fraction, str]], data: st.DataObject
) -> None:
    scores = {f"t{i}": value for i, (value, _) in enumerate(tasks)}
    split = {f"t{i}": f"{cluster}{data.draw(st.integers(0, 2))}" for i, (_, cluster) in enumerate(tasks)}
    independent = sampling_error(scores, {task: task for task in scores})
    for clusters in ({f"t{i}": cluster for i, (_, cluster) in enumerate(tasks)}, split):
        found = sampling_error(scores, clusters)
        assume(found.interval is not None and independent.interval is not None)
        assert found.interval is not None
        assert independent.interval is not None
        assert found.interval.half_width >= independent.interval.half_width * (1 - 1e-12)
        assert found.interval.standard_error >= (found.iid or 0)


@untimed
@given(st.lists(st.integers(1, 40), min_size=2, max_size=30))
def test_degrees_of_freedom_lie_between_1_and_the_clusters_but_one(sizes: list[int]) -> None:
    df = bell_mccaffrey_df(sizes)
    assert 1 - 1e-12 <= df <= (len(sizes) - 1) * (1 + 1e-12)


@untimed
@given(st.integers(1, 1000))
def test_clusters_of_one_task_are_independent_tasks(tasks: int) -> None:
    assert bell_mccaffrey_df([1] * (tasks + 1)) == pytest.approx(tasks, rel=1e-9)


@untimed
@given(tables)
def test_the_index_is_nothing_without_one_task(table: Table) -> None:
    full: Table = [(cluster, [reward or 0.0 for reward in found]) for cluster, found in table]
    ledger = ledger_of(full)
    suite = {"only": ComponentPlan(len(table), REPETITIONS)}

    def index_of(records: list[Observation]) -> Fraction | None:
        one = collect(ledger, records, ["candidate"])["candidate"]
        error = sampling_error(strict_scores(one), clusters_of(ledger.tasks))
        return index(suite, {"only": ComponentResult(score(one), error, repeat_noise(one))}).value

    records = records_of(full)
    assert index_of(records) is not None
    assert index_of([record for record in records if record.task != "t0"]) is None


@untimed
@given(st.floats(1e-4, 1 - 1e-4), st.floats(0.5, 1e5))
def test_the_t_quantile_is_odd_and_grows_with_p(p: float, df: float) -> None:
    assert t_quantile(1 - p, df) == pytest.approx(-t_quantile(p, df), rel=1e-9, abs=1e-12)
    assert t_quantile(min(p + 1e-3, 0.9999), df) >= t_quantile(p, df) or p > 0.9989
