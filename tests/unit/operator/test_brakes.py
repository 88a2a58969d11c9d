"""What stops a run before it wastes money: uniform failure, a spent budget, a provider at its limit."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.api.evaluation_run import Budget
from assay.api.journal import JournalEntry
from assay.api.ledgerfile import Plan
from assay.api.outcome import OutcomeClass
from assay.core.attempts import Invalid, NextTry
from assay.core.plan import PlanRefused, RunPlan, make_plan
from assay.core.rate_limits import slots
from assay.core.reconcile import Decision, Desired, Observed, reconcile
from assay.core.record import AttemptKey, TryRecord, TryTokens
from assay.core.segments import encode_record, entry_of, record_of
from tests.operator_kit import builders as make
from tests.unit.operator.test_reconcile import created, live

INFRA, CRASH = OutcomeClass.INFRA_START, OutcomeClass.VERIFIER_CRASH
GRADED, DISRUPTED = OutcomeClass.GRADED, OutcomeClass.DISRUPTED
LIMITED = OutcomeClass.PROVIDER_RATE_LIMITED
PLAN = make.plan_of(tasks=20)
MODELS = [
    {"role": "main", "name": "gpt-x", "provider": {"endpoint": "https://api.example", "api": "OpenAIChat"}}
]


def record(
    key: AttemptKey, outcome: OutcomeClass, number: int = 1, *, at: float = 60, **more: Any
) -> TryRecord:
    name = f"{key.task}-r{key.repetition}-t{number}"
    fields: dict[str, Any] = {"reason": "the image of task-1 cannot be pulled", "total_seconds": 30.0}
    reward = 1.0 if outcome is GRADED else None
    return TryRecord(key, number, name, outcome, ended_at=make.later(at), reward=reward, **fields | more)


def decide(
    records: Sequence[TryRecord],
    plan: RunPlan = PLAN,
    observed: Observed | None = None,
    now: float = 3600,
    **desired: Any,
) -> Decision:
    wanted = replace(Desired(make.RUN_UID, plan, 10), **desired)
    recorded = {one.job_name: one for one in records}
    return reconcile(wanted, recorded, observed or Observed(), make.later(now))


def failures(outcome: OutcomeClass = INFRA, count: int = 10, **more: Any) -> list[TryRecord]:
    return [record(key, outcome, at=60 + at, **more) for at, key in enumerate(PLAN.attempts[:count])]


class TestCircuitBreaker:
    def test_ten_first_attempts_that_fail_alike_stop_the_run(self) -> None:
        decision = decide(failures())
        assert len(decision.brakes.alike) == 10
        assert created(decision) == []

    @pytest.mark.parametrize("count", [1, 9])
    def test_fewer_do_not(self, count: int) -> None:
        assert created(decide(failures(count=count)))

    def test_one_that_went_well_among_the_first_proves_that_the_run_works(self) -> None:
        proof = record(PLAN.attempts[10], GRADED, at=61)
        assert not decide([*failures(), proof]).brakes.on

    def test_one_that_went_well_later_does_not_hide_that_the_first_all_failed(self) -> None:
        assert decide([*failures(), record(PLAN.attempts[10], GRADED, at=500)]).brakes.alike

    def test_the_same_cause_in_other_words_is_the_same(self) -> None:
        found = [
            replace(one, reason=f'task-{number}: image "reg.example/a@sha256:{number:064x}" not found')
            for number, one in enumerate(failures())
        ]
        assert decide(found).brakes.alike

    def test_other_causes_are_other_faults(self) -> None:
        found = [replace(one, reason=word) for one, word in zip(failures(), "abcdefghij", strict=True)]
        assert not decide(found).brakes.on

    def test_other_classes_are_other_faults(self) -> None:
        assert not decide([*failures(count=5), *failures(CRASH)[5:]]).brakes.on

    def test_losing_is_no_fault_however_uniform(self) -> None:
        lost = [replace(one, reward=0.0) for one in failures(GRADED)]
        assert not decide(lost).brakes.on

    def test_a_node_that_takes_ten_first_tries_along_is_no_fault_of_the_run(self) -> None:
        assert not decide(failures(DISRUPTED)).brakes.on

    def test_losing_the_replacements_alike_is(self) -> None:
        again = [replace(one, try_number=2, job_name=f"{one.job_name}2") for one in failures(DISRUPTED)]
        assert decide([*failures(DISRUPTED), *again]).brakes.alike

    def test_a_provider_at_its_limit_is_waited_for(self) -> None:
        assert not decide(failures(LIMITED)).brakes.on

    def test_one_broken_task_is_no_fault_of_the_run(self) -> None:
        plan = make.plan_of(tasks=3, repetitions=12)
        broken = [key for key in plan.attempts if key.task == "task-0"][:10]
        found = [record(key, INFRA) for key in broken]
        assert not decide(found, plan).brakes.on

    def test_a_small_run_ends_by_its_retry_limits(self) -> None:
        plan = make.plan_of(tasks=10)
        assert not decide([record(key, INFRA) for key in plan.attempts], plan).brakes.on

    def test_until_something_is_known_first_tries_come_first_so_that_no_limit_is_spent(self) -> None:
        (failed, *_) = failures(count=1)
        assert (failed.key, 2) not in created(decide([failed]))
        working = live(PLAN.attempts[-1])
        tried = failures(count=9)
        assert all(number == 1 for _, number in created(decide(tried, observed=working, parallelism=50)))
        every = [record(key, INFRA if at < 9 else DISRUPTED) for at, key in enumerate(PLAN.attempts)]
        assert {number for _, number in created(decide(every, parallelism=50))} == {2}, (
            "nothing else can tell"
        )
        proven = [*failures(count=1), *failures(GRADED)[1:]]
        assert created(decide(proven))[0] == (failed.key, 2)

    def test_a_person_lets_it_go_on_and_it_opens_again_if_nothing_is_better(self) -> None:
        resumed = make.later(600)
        assert created(decide(failures(), resumed_at=resumed))
        again = [
            replace(one, try_number=2, job_name=f"{one.job_name}2", ended_at=make.later(900))
            for one in failures()
        ]
        assert decide([*failures(), *again], resumed_at=resumed).brakes.alike

    def test_tries_that_began_before_a_person_mended_the_cause_say_nothing(self) -> None:
        late = [replace(one, ended_at=make.later(900), total_seconds=600.0) for one in failures()]
        assert not decide(late, resumed_at=make.later(600)).brakes.on

    def test_a_run_in_which_all_has_ended_is_over_not_suspended(self) -> None:
        every = [record(key, INFRA, n) for key in PLAN.attempts for n in range(1, 5)]
        decision = decide(every)
        assert not decision.brakes.on
        assert decision.finished


def modelled(tasks: int = 20, plan: Plan | None = None) -> RunPlan:
    lines = [make.task(f"task-{number}") for number in range(tasks)]
    variant = make.run_variant(spec=make.variant_spec(models=MODELS))
    return make_plan(
        make.run_object().spec, make.RUN_UID, [make.run_ledger(tasks=lines, plan=plan)], [variant]
    )


class TestBudget:
    def test_tokens_that_are_spent_stop_dispatch_and_leave_live_tries_alone(self) -> None:
        plan = modelled()
        first, second, *_ = plan.attempts
        tokens = TryTokens(input=900, output=100)
        found = [record(first, GRADED, tokens=tokens)]
        decision = decide(found, plan, live(second), budget=Budget(tokens=1000))
        assert decision.actions == ()
        assert [one.key for one in decision.live] == [second]
        assert decision.brakes.spent is not None
        assert decision.brakes.spent.words == "1000 of 1000 tokens are spent"
        assert created(decide(found, plan, budget=Budget(tokens=1001)))

    def test_money_is_summed_exactly_and_an_unknown_cost_is_said(self) -> None:
        plan = modelled()
        first, second, third, *_ = plan.attempts
        found = [
            record(first, INFRA, cost_usd=Decimal("0.10")),
            record(first, GRADED, 2, cost_usd=Decimal("0.20")),
            record(second, GRADED),
        ]
        assert created(decide(found, plan, budget=Budget(usd="0.31")))
        spent = decide([*found, record(third, GRADED, cost_usd=Decimal("0"))], plan, budget=Budget(usd="0.3"))
        assert spent.brakes.spent is not None
        assert spent.brakes.spent.words == (
            "0.30 of 0.3 USD are spent, and 1 tries of unknown usage come on top"
        )

    def test_money_needs_prices(self) -> None:
        with pytest.raises(PlanRefused, match=r"spec\.budget\.usd is set and spec\.priceSheet is not"):
            make.plan_of(budget={"usd": "1"})

    def test_a_cost_survives_the_journal_to_the_last_digit(self) -> None:
        one = record(PLAN.attempts[0], GRADED, cost_usd=Decimal("0.1234567891"))
        assert record_of(entry_of(one)) == one
        assert JournalEntry.model_validate_json(encode_record(one), strict=True).cost_usd == one.cost_usd

    def test_tries_that_were_replaced_are_paid_for_too(self) -> None:
        plan = modelled()
        tokens = TryTokens(input=500, output=0)
        found = [
            record(plan.attempts[0], INFRA, tokens=tokens),
            record(plan.attempts[0], GRADED, 2, tokens=tokens),
        ]
        assert decide(found, plan, budget=Budget(tokens=1000)).brakes.spent

    def test_unknown_usage_is_said_and_never_counted_as_nothing(self) -> None:
        plan = modelled()
        found = [
            record(plan.attempts[0], GRADED, tokens=TryTokens(input=1000, output=1)),
            record(plan.attempts[1], INFRA),
        ]
        spent = decide(found, plan, budget=Budget(tokens=1000)).brakes.spent
        assert spent is not None
        assert "1 tries of unknown usage" in spent.words

    def test_an_agent_without_a_model_uses_no_tokens(self) -> None:
        found = failures(GRADED)
        assert not decide(found, budget=Budget(tokens=1)).brakes.on

    def test_no_more_attempts_begin_than_may_and_those_are_finished(self) -> None:
        budget = Budget(attempts=3)
        first, second, *_ = created(decide([], budget=budget))
        assert len(created(decide([], budget=budget))) == 3
        failed = record(first[0], INFRA)
        again = decide([failed, record(second[0], GRADED)], budget=budget)
        assert len([one for one in created(again) if one[1] == 1]) == 1, "the third"
        assert (first[0], 2) in created(again)

    def test_the_bound_on_attempts_holds_the_run_up_once_they_are_over(self) -> None:
        found = failures(GRADED, 3)
        spent = decide(found, budget=Budget(attempts=3)).brakes.spent
        assert spent is not None
        assert spent.words == "3 of 20 attempts have begun, 3 may"
        assert created(decide(found, budget=Budget(attempts=4)))

    def test_a_run_that_is_over_has_no_budget_to_complain_about(self) -> None:
        plan = modelled(tasks=1)
        found = [record(plan.attempts[0], GRADED, tokens=TryTokens(input=10**6, output=1))]
        decision = decide(found, plan, budget=Budget(tokens=1, attempts=1))
        assert not decision.brakes.on
        assert decision.finished


class TestRateLimits:
    QUIET = TryTokens(input=10, output=0)

    def test_a_burst_halves_the_models_slots_once(self) -> None:
        plan = modelled()
        burst = [record(key, LIMITED, at=60, tokens=self.QUIET) for key in plan.attempts[:8]]
        decision = decide(burst, plan, now=61, parallelism=8)
        assert len(created(decision)) == 4
        assert decision.wake_at == make.later(120)

    def test_another_model_keeps_its_slots(self) -> None:
        spec = make.variant_spec(models=MODELS)
        other = make.variant_spec(models=[MODELS[0] | {"name": "gpt-w"}])
        lines = [make.task(f"task-{number}") for number in range(8)]
        run = make.run_object(variants=[{"name": "x"}, {"name": "w"}])
        variants = [make.run_variant("x", spec), make.run_variant("w", other)]
        plan = make_plan(run.spec, make.RUN_UID, [make.run_ledger(tasks=lines)], variants)
        hit = next(key for key in plan.attempts if key.variant == "x")
        found = [record(hit, LIMITED, tokens=self.QUIET)]
        names = [key.variant for key, _ in created(decide(found, plan, now=61, parallelism=16))]
        assert (names.count("x"), names.count("w")) == (7, 8), "7: the limited attempt itself still waits"
        many = [replace(found[0], ended_at=make.later(at), job_name=f"j{at}") for at in (60, 130, 200)]
        names = [key.variant for key, _ in created(decide(many, plan, now=201, parallelism=16))]
        assert names.count("x") < 7
        assert names.count("w") == 8

    def test_live_tries_count_and_none_is_ended(self) -> None:
        plan = modelled()
        found = [record(plan.attempts[0], LIMITED, tokens=self.QUIET)]
        decision = decide(found, plan, live(plan.attempts[1]), now=61, parallelism=2)
        assert decision.actions == ()

    def test_a_try_with_output_is_a_sample_and_not_taken_again_unless_the_plan_says_so(self) -> None:
        key, output = modelled().attempts[0], TryTokens(input=10, output=5)
        found = [record(key, LIMITED, tokens=output)]
        state = decide(found, modelled()).states[key]
        assert isinstance(state, Invalid)
        assert "5 output tokens" in state.why
        allowed = modelled(plan=Plan(rate_limited_after_output="rerun"))
        assert isinstance(decide(found, allowed).states[key], NextTry)
        assert isinstance(decide(found, modelled(), rounds=2).states[key], NextTry), "spec.retry asks for it"

    @given(
        parallelism=st.integers(1, 500),
        moments=st.lists(st.integers(0, 7200), max_size=30).map(sorted),
        now=st.integers(0, 100_000),
    )
    def test_slots_stay_within_their_bounds_and_all_come_back(
        self, parallelism: int, moments: list[int], now: int
    ) -> None:
        limited: list[datetime] = [make.later(at) for at in moments if at <= now]
        found, more_at = slots(parallelism, limited, make.later(now))
        assert 1 <= found <= parallelism
        assert more_at is None or more_at > make.later(now)
        assert slots(parallelism, limited, make.later(now + 3 * 3600)) == (parallelism, None)
