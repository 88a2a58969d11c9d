"""What follows a failed verdict: the artefacts are judged again, the agent never runs again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from assay.api.attempt_record import VERDICT_FAILED
from assay.api.evidence import PhaseSeconds, TokenCounts
from assay.api.ledgerfile import Oracle, OracleKind, OracleProof, Plan, RetryLimits, VerifierMode
from assay.api.outcome import OutcomeClass
from assay.core.actions import CreateJob
from assay.core.attempt_pod import Images, render_job
from assay.core.attempt_records import TryEvidence, attempt_record, with_agents_evidence
from assay.core.attempts import AttemptState, Invalid, NextTry, Scored
from assay.core.classify import Ended, EndNow, Live, TryState, classify, record_of_manifest
from assay.core.collection import Collection, Pair
from assay.core.observation import ENVIRONMENT, VERIFIER, ContainerView, Phase
from assay.core.plan import RunPlan, make_plan
from assay.core.pod_causes import Waiting
from assay.core.reconcile import Decision, Desired, Observed, reconcile
from assay.core.record import AttemptKey, ManifestAbsent, ManifestFound, TryRecord
from assay.core.records_file import Place
from assay.core.segments import entry_of, record_of
from assay.core.try_spec import make_try_spec
from tests.operator_kit import builders as make

GRADED, CRASH = OutcomeClass.GRADED, OutcomeClass.VERIFIER_CRASH
TIMEOUT, INFRA = OutcomeClass.VERIFIER_TIMEOUT, OutcomeClass.INFRA_START
DISRUPTED, INVALID = OutcomeClass.DISRUPTED, OutcomeClass.INVALID_RESULT
PROOF = OracleProof(solution_rewards=[1.0] * 3, no_change_rewards=[0.0], results_digest=make.DIGEST)


def planned(
    *variants: str, proof: bool = False, mode: VerifierMode = VerifierMode.SEPARATE, **limits: int
) -> RunPlan:
    """One task; variants are named after their agents."""
    oracle = Oracle(kind=OracleKind.TESTS, digest=make.DIGEST, proof=PROOF if proof else None)
    line = make.task(oracle=oracle, verifier_mode=mode)
    ledger = make.run_ledger(tasks=[line], plan=Plan(retry_limits=RetryLimits(**limits)))
    names = variants or ("terminus-2",)
    run = make.run_object(variants=[{"name": name} for name in names])
    specs = [make.run_variant(name, make.variant_spec(agent={"name": name})) for name in names]
    return make_plan(run.spec, make.RUN_UID, [ledger], specs)


def key_of(plan: RunPlan, variant: str = "terminus-2") -> AttemptKey:
    return next(key for key in plan.attempts if key.variant == variant)


def tried(
    plan: RunPlan, outcomes: Sequence[OutcomeClass], variant: str = "terminus-2", *, artifacts: bool = True
) -> list[ManifestFound]:
    """The manifests of the tries of an attempt, each made as the operator decided after the one before."""
    found: list[ManifestFound] = []
    for number, outcome in enumerate(outcomes, 1):
        (due,) = [one for one in creations(plan, found) if one.key.variant == variant]
        assert due.try_number == number
        reward = 1.0 if outcome is GRADED else None
        left = artifacts and due.judged is None
        found.append(
            make.found(
                due.key,
                outcome,
                reward,
                try_number=number,
                artifacts=left,
                judged=due.judged,
                variant=plan.variants[variant],
                tokens=TokenCounts() if due.judged else TokenCounts(input=100, output=10),
                seconds=PhaseSeconds(verifier=4.0) if due.judged else PhaseSeconds(agent=30.0, verifier=5.0),
            )
        )
    return found


def records(plan: RunPlan, *found: ManifestFound) -> dict[str, TryRecord]:
    """As the journal gives them back."""
    made = [record_of_manifest(one, plan.terms(AttemptKey.of(one.manifest.identity))) for one in found]
    return {one.job_name: record_of(entry_of(one)) for one in made}


def decided(plan: RunPlan, found: Sequence[ManifestFound]) -> Decision:
    wanted = Desired(make.RUN_UID, plan, 10)
    return reconcile(wanted, records(plan, *found), Observed(), make.later(24 * 3600))


def creations(plan: RunPlan, found: Sequence[ManifestFound]) -> list[CreateJob]:
    return [one for one in decided(plan, found).actions if isinstance(one, CreateJob)]


def state(plan: RunPlan, *outcomes: OutcomeClass, artifacts: bool = True) -> AttemptState:
    return decided(plan, tried(plan, outcomes, artifacts=artifacts)).states[key_of(plan)]


class TestTheNextTry:
    @pytest.mark.parametrize("first", [CRASH, TIMEOUT, OutcomeClass.JUDGE_INCOMPLETE, DISRUPTED, INVALID])
    def test_artefacts_without_a_verdict_are_judged_again(self, first: OutcomeClass) -> None:
        after = state(planned(), first)
        assert isinstance(after, NextTry)
        assert after.judged is not None
        assert (after.number, after.judged.try_number) == (2, 1)

    @pytest.mark.parametrize("second", [INFRA, DISRUPTED, OutcomeClass.ARTIFACTS_PARTIAL, CRASH])
    def test_whatever_hinders_the_verifier_the_agent_does_not_run_again(self, second: OutcomeClass) -> None:
        after = state(planned(), CRASH, second)
        assert isinstance(after, NextTry)
        assert after.judged is not None
        assert (after.number, after.judged.try_number) == (3, 1)

    @pytest.mark.parametrize("first", [INFRA, DISRUPTED, INVALID, OutcomeClass.RESULT_MISSING])
    def test_without_artefacts_what_the_cluster_did_is_a_new_sample(self, first: OutcomeClass) -> None:
        after = state(planned(), first, artifacts=False)
        assert isinstance(after, NextTry)
        assert after.judged is None

    def test_a_failed_verdict_without_artefacts_earns_no_new_sample(self) -> None:
        after = state(planned(), TIMEOUT, artifacts=False)
        assert isinstance(after, Invalid)
        assert "no artefacts" in after.why

    def test_a_try_that_its_provider_spoiled_has_nothing_to_be_judged(self) -> None:
        plan = planned()
        found = make.found(
            key_of(plan),
            DISRUPTED,
            None,
            artifacts=True,
            variant=plan.variants["terminus-2"],
            graded_as=OutcomeClass.PROVIDER_RATE_LIMITED,
        )
        after = decided(plan, [found]).states[key_of(plan)]
        assert isinstance(after, NextTry)
        assert after.judged is None

    def test_the_limits_are_those_of_verification_and_0_means_0(self) -> None:
        assert isinstance(state(planned(verification=0), CRASH), Invalid)
        assert isinstance(state(planned(verification=1), CRASH, TIMEOUT), Invalid)
        assert isinstance(state(planned(verification=3), CRASH, TIMEOUT, CRASH), NextTry)
        assert isinstance(state(planned(verification=3), *[CRASH] * 4), Invalid)
        assert isinstance(state(planned(verification=3, infrastructure=0), CRASH, INFRA), Invalid)


class TestEveryVerdictFailed:
    def test_it_counts_0_flagged_where_the_ledger_proves_that_the_oracle_passes(self) -> None:
        after = state(planned(proof=True), *[TIMEOUT] * 4)
        assert isinstance(after, Scored)
        assert after.score == 0
        assert VERDICT_FAILED in after.retained.flags
        assert after.retained.tokens.output == 10, "with what its agent used"

    def test_too_few_verdicts_prove_nothing(self) -> None:
        assert isinstance(state(planned(proof=True, verification=1), CRASH, CRASH), Invalid)

    @pytest.mark.parametrize(
        ("sentinel", "expected"),
        [([], Invalid), ([GRADED], Scored), ([CRASH] * 4, Invalid), ([INFRA], Invalid)],
    )
    @pytest.mark.parametrize("proof", [False, True])
    def test_an_oracle_in_the_run_knows_better_than_the_ledger(
        self, sentinel: Sequence[OutcomeClass], expected: type, proof: bool
    ) -> None:
        plan = planned("terminus-2", "oracle", proof=proof)
        found = [*tried(plan, [CRASH] * 4), *tried(plan, sentinel, "oracle")]
        assert isinstance(decided(plan, found).states[key_of(plan)], expected)

    def test_the_oracle_proves_nothing_of_itself(self) -> None:
        plan = planned("oracle", proof=True)
        found = tried(plan, [CRASH] * 4, "oracle")
        assert isinstance(decided(plan, found).states[key_of(plan, "oracle")], Invalid)


class TestThePod:
    def test_it_has_a_verifier_and_a_runner_and_can_call_no_model(self) -> None:
        plan = planned()
        found = tried(plan, [CRASH])
        (due,) = creations(plan, found)
        spec = make_try_spec(make.run_object(), plan, due.key, 2, due.name, due.judged)
        job = render_job(make.run_object(), plan, spec, Images("runner@x", "sandboxd@x"), "10.0.0.1")
        pod = job["spec"]["template"]["spec"]

        assert [one["name"] for one in pod["initContainers"]] == ["inject", "runner"]
        assert [one["name"] for one in pod["containers"]] == [VERIFIER]
        assert not [one for one in pod["volumes"] if ENVIRONMENT in one["name"]]
        assert (spec.models, spec.agent.arguments, spec.agent.environment) == ([], {}, {})
        assert job["metadata"]["annotations"]["assay.dev/verifies"] == "1"
        assert spec.verify_only is not None
        assert spec.verify_only.pod_uid == found[0].manifest.pod_uid
        assert spec.verify_only.manifest_digest == found[0].digest


class TestRecords:
    def test_the_result_joins_agent_and_verdict_and_nothing_is_counted_twice(self) -> None:
        plan, run = planned(), make.run_object()
        found = tried(plan, [CRASH, TIMEOUT, GRADED])
        decision = decided(plan, found)
        after = decision.states[key_of(plan)]
        assert isinstance(after, Scored)
        assert (after.score, after.retained.try_number, after.retained.verifies) == (1, 3, 1)

        first, second, last = decision.tries
        evidence = [TryEvidence(one.manifest) for one in found]
        joined = with_agents_evidence(evidence[2], evidence[0])
        made = [
            attempt_record(run, plan, first, evidence[0], retained=False, figures_in=3),
            attempt_record(run, plan, second, evidence[1], retained=False),
            attempt_record(run, plan, after.retained, joined, retained=True),
        ]
        assert (made[2].tokens.output, made[2].seconds.agent, made[2].seconds.verifier) == (10, 30.0, 4.0)
        assert made[2].total_seconds == (first.total_seconds or 0) + (last.total_seconds or 0)
        assert (made[1].tokens.output, made[1].calls, made[1].verifies) == (0, [], 1)

        collection = Collection()
        for number, one in enumerate(made, 1):
            collection.add(Place("attempts.jsonl", number), one)
        replaced = collection.pairs[Pair("ledger", "terminus-2")].replaced
        assert (replaced.tries, replaced.tokens["output"], replaced.tokens_known["output"]) == (2, 0, 2)
        assert replaced.seconds == second.total_seconds

    def test_a_zero_for_failed_verdicts_is_a_record_that_reads_back(self) -> None:
        plan, run = planned(proof=True), make.run_object()
        decision = decided(plan, tried(plan, [CRASH] * 4))
        after = decision.states[key_of(plan)]
        assert isinstance(after, Scored)
        record = attempt_record(run, plan, after.retained, None, retained=True)
        collection = Collection()
        collection.add(Place("attempts.jsonl", 1), record)
        (attempt,) = collection.pairs[Pair("ledger", "terminus-2")].attempts.values()
        assert attempt.kept is not None
        assert (attempt.kept.reward, attempt.kept.flagged) == (0.0, True)
        with pytest.raises(ValueError, match="set retained to false"):
            collection.add(Place("other.jsonl", 1), record.model_copy(update={"flags": [], "try_number": 9}))

    def test_the_written_record_of_a_verifier_that_never_started_keeps_its_artefacts(self) -> None:
        plan = planned()
        key = key_of(plan)
        job = make.job_view(key)
        written = TryRecord(
            key, 1, job.name, CRASH, "image cannot be pulled", make.later(60), make.pod_uid_of(job.name)
        )
        job = replace(job, record_json=written.to_json())
        pod = make.ended_pod(job)
        answer = make.found(key, DISRUPTED, None, artifacts=True, variant=plan.variants["terminus-2"])
        observed = Observed(
            jobs={job.name: job}, pods={job.name: (pod,)}, answers={(job.name, pod.uid): answer}
        )
        after = reconcile(Desired(make.RUN_UID, plan, 10), {}, observed, make.later(3600)).states[key]
        assert isinstance(after, NextTry)
        assert after.judged is not None
        assert after.judged.outcome is CRASH


class TestItsEnd:
    """What the kubelet says of a pod without environment."""

    def state(self, *containers: ContainerView, after: float = 3600, **changes: Any) -> TryState:
        plan = planned()
        key = key_of(plan)
        job = replace(make.job_view(key, 2), verifies=1)
        pod = make.pod_view(job, *containers, **changes)
        answer = ManifestAbsent(make.later(3600)) if pod.ended else None
        return classify(job, pod, answer, None, plan.terms(key), make.later(after))

    @pytest.mark.parametrize("code", [0, 1])
    def test_a_verifier_that_broke_its_limits_is_a_failed_verdict(self, code: int) -> None:
        runner = make.ended("runner", code)
        killed = self.state(runner, make.ended(VERIFIER, 137, "OOMKilled"), phase=Phase.FAILED)
        evicted = self.state(
            runner,
            make.ended(VERIFIER, 137),
            phase=Phase.FAILED,
            reason="Evicted",
            message="Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.",
        )
        for end in (killed, evicted):
            assert isinstance(end, Ended)
            assert (end.record.outcome, end.record.verifies) == (CRASH, 1)

    def test_a_verifier_that_cannot_start_is_not_one(self) -> None:
        waiting = ContainerView(VERIFIER, waiting_reason="ErrImagePull", waiting_message="not found")
        soon = self.state(make.container("runner"), waiting, after=60)
        assert isinstance(soon, Live)
        assert soon.waiting is not None
        assert soon.waiting.reason is Waiting.IMAGE_UNAVAILABLE
        late = self.state(make.container("runner"), waiting, after=4000)
        assert isinstance(late, EndNow)
        assert (late.record.outcome, late.record.verifies) == (INFRA, 1)

    def test_a_working_verifier_is_waited_for(self) -> None:
        state = self.state(make.container("runner"), make.container(VERIFIER))
        assert isinstance(state, Live)
        assert state.waiting is None
