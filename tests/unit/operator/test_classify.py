"""What the cluster did is not what the agent did (cases.md BAR 4 and 5)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from assay.api.outcome import OutcomeClass
from assay.core.classify import (
    SETTLE_SECONDS,
    AskStorage,
    Ended,
    EndNow,
    Live,
    TryState,
    TryTerms,
    classify,
    lost,
)
from assay.core.manifest import read_manifest
from assay.core.observation import ConditionView, ContainerView, JobEvent, JobView, Phase, PodView
from assay.core.pod_causes import LATE_SECONDS, Waiting, starts_late
from assay.core.record import AttemptKey, ManifestAbsent, ManifestAnswer, ManifestBad, ManifestFound
from tests.operator_kit import builders as make

KEY = AttemptKey("ledger", "task-a", "oracle", 0)
TERMS = TryTerms(600, make.DIGEST, make.run_variant().fingerprint)
JOB = make.job_view(KEY)
FAILED_JOB = replace(
    JOB, finished=ConditionView("Failed", "True", "BackoffLimitExceeded", "it failed", make.later(70))
)
ABSENT = ManifestAbsent(make.later(3600))


def state(
    pod: PodView | None,
    answer: ManifestAnswer | None = ABSENT,
    *,
    job: JobView = JOB,
    event: JobEvent | None = None,
    after: float = 3600,
) -> TryState:
    return classify(job, pod, answer, event, TERMS, make.later(after))


def outcome(*arguments: Any, **keywords: Any) -> tuple[OutcomeClass, str]:
    found = state(*arguments, **keywords)
    assert isinstance(found, Ended), found
    return found.record.outcome, found.record.reason


def killed(why: str = "OOMKilled", **changes: Any) -> PodView:
    """A pod whose environment was killed."""
    containers = (make.ended("inject"), make.ended("runner"), make.ended("environment", 137, why))
    return make.pod_view(JOB, *containers, **{"phase": Phase.FAILED} | changes)


class TestEnds:
    def test_disruption_is_not_the_agents_doing(self) -> None:
        pod = killed(conditions=make.true("DisruptionTarget", "PreemptionByScheduler", "preempted"))
        assert outcome(pod) == (OutcomeClass.DISRUPTED, "PreemptionByScheduler: preempted")

    def test_out_of_memory_is_the_agents_doing(self) -> None:
        assert outcome(killed())[0] is OutcomeClass.AGENT_OOM

    def test_out_of_memory_of_the_verifier_is_a_failed_verdict(self) -> None:
        pod = make.ended_pod(JOB, phase=Phase.FAILED)
        pod = replace(
            pod, containers={**pod.containers, "verifier": make.ended("verifier", 137, "OOMKilled")}
        )
        assert outcome(pod)[0] is OutcomeClass.VERIFIER_CRASH

    def test_a_full_disk_is_the_agents_doing(self) -> None:
        pod = killed(
            "Error",
            reason="Evicted",
            message="Pod ephemeral local storage usage exceeds the total limit of containers 10Gi. ",
        )
        assert outcome(pod)[0] is OutcomeClass.AGENT_DISK_EXCEEDED

    def test_eviction_of_a_pod_below_its_requests_is_a_disruption(self) -> None:
        pod = killed(
            "Error",
            reason="Evicted",
            message="The node was low on resource: memory. Threshold quantity: 100Mi, available: 10Mi. ",
            conditions=make.true("DisruptionTarget", "TerminationByKubelet"),
        )
        assert outcome(pod)[0] is OutcomeClass.DISRUPTED

    def test_eviction_of_an_agent_above_its_requests_is_its_doing(self) -> None:
        pod = killed(
            "Error",
            reason="Evicted",
            message="The node was low on resource: memory. Threshold quantity: 100Mi, available: 10Mi. "
            "Container environment was using 3Gi, request is 1Gi, has larger consumption of memory. ",
            conditions=make.true("DisruptionTarget", "TerminationByKubelet"),
        )
        assert outcome(pod)[0] is OutcomeClass.AGENT_OOM

    def test_a_restarted_runner_is_infrastructure(self) -> None:
        pod = make.ended_pod(JOB)
        pod = replace(pod, containers={**pod.containers, "runner": make.ended("runner", restarts=1)})
        assert outcome(pod)[0] is OutcomeClass.RUNNER_RESTARTED

    @pytest.mark.parametrize("answer", [ABSENT, make.found(KEY, OutcomeClass.RUNNER_RESTARTED, None)])
    def test_a_runner_out_of_memory_is_named_with_what_to_look_at(self, answer: ManifestAnswer) -> None:
        pod = make.ended_pod(JOB)
        runner = make.ended("runner", restarts=1, restarted_for="OOMKilled")
        found, reason = outcome(replace(pod, containers={**pod.containers, "runner": runner}), answer)
        assert found is OutcomeClass.RUNNER_RESTARTED
        assert "OOMKilled" in reason
        assert "Look at" in reason

    def test_an_end_without_a_result_is_never_a_pass(self) -> None:
        assert outcome(make.ended_pod(JOB))[0] is OutcomeClass.RESULT_MISSING

    def test_an_end_that_nothing_explains_is_not_counted(self) -> None:
        found, reason = outcome(make.ended_pod(JOB, 3))
        assert found is OutcomeClass.UNRECOGNISED
        assert "verifier 3" in reason

    def test_a_pod_that_was_deleted_is_a_disruption(self) -> None:
        pod = make.pod_view(
            JOB, make.container("runner"), make.container("environment"), gone_at=make.later(60)
        )
        assert outcome(pod)[0] is OutcomeClass.DISRUPTED

    def test_a_pod_that_was_deleted_by_force_is_a_disruption(self) -> None:
        """Its containers were killed before any of them could say a word."""
        gone = [make.ended(name, 137) for name in ("runner", "environment")]
        pod = make.pod_view(JOB, *gone, phase=Phase.FAILED, deleting=True)
        assert outcome(pod)[0] is OutcomeClass.DISRUPTED

    def test_a_job_whose_pod_nobody_saw_is_a_disruption(self) -> None:
        assert outcome(None, job=FAILED_JOB)[0] is OutcomeClass.DISRUPTED

    def test_a_container_that_could_not_be_made_is_infrastructure(self) -> None:
        pod = make.pod_view(JOB, make.ended("inject", 1), phase=Phase.FAILED)
        found, reason = outcome(pod, None)
        assert found is OutcomeClass.INFRA_START
        assert "inject" in reason

    def test_facts_that_go_with_the_pod_are_marked_so(self) -> None:
        found = state(killed())
        assert isinstance(found, Ended)
        assert not found.durable


class TestManifest:
    def test_a_result_counts_although_the_pod_failed(self) -> None:
        assert outcome(make.ended_pod(JOB, 1), make.found(KEY))[0] is OutcomeClass.GRADED

    def test_an_agent_timeout_with_a_verdict_is_a_score(self) -> None:
        found = state(make.ended_pod(JOB), make.found(KEY, reward=1.0, agent_timed_out=True))
        assert isinstance(found, Ended)
        assert (found.record.reward, found.record.agent_timed_out) == (1.0, True)
        assert found.record.outcome is OutcomeClass.GRADED

    def test_a_verdict_before_a_disruption_counts(self) -> None:
        pod = make.ended_pod(JOB, conditions=make.true("DisruptionTarget", "EvictionByEvictionAPI"))
        assert outcome(pod, make.found(KEY))[0] is OutcomeClass.GRADED

    def test_the_kubelet_knows_better_why_there_is_no_verdict(self) -> None:
        lost = make.found(KEY, OutcomeClass.DISRUPTED, None)
        assert outcome(killed(), lost)[0] is OutcomeClass.AGENT_OOM

    def test_the_cluster_knows_who_took_the_pod_away(self) -> None:
        lost = make.found(KEY, OutcomeClass.DISRUPTED, None, reason="the pod was told to end")
        pod = make.ended_pod(
            JOB, 1, conditions=make.true("DisruptionTarget", "EvictionByEvictionAPI", "drained")
        )
        assert outcome(pod, lost) == (OutcomeClass.DISRUPTED, "EvictionByEvictionAPI: drained")

    def test_a_pod_that_the_kubelet_gave_up_is_over_though_its_phase_never_says_so(self) -> None:
        given_up = make.pod_view(
            JOB,
            make.ended("inject"),
            make.ended("runner"),
            make.ended("environment", 0, "OOMKilled"),
            phase=Phase.PENDING,
        )
        lost = make.found(KEY, OutcomeClass.DISRUPTED, None)
        assert outcome(given_up, lost)[0] is OutcomeClass.AGENT_OOM
        still_saving = replace(
            given_up, containers={**given_up.containers, "runner": make.container("runner")}
        )
        assert isinstance(state(still_saving, lost), Live)

    def test_what_the_runner_found_stands_where_the_kubelet_says_nothing(self) -> None:
        isolation = make.found(KEY, OutcomeClass.ISOLATION_ABSENT, None, reason="reached 10.0.0.1")
        assert outcome(make.ended_pod(JOB), isolation) == (
            OutcomeClass.ISOLATION_ABSENT,
            "reached 10.0.0.1",
        )

    def test_a_grade_without_a_reward_is_invalid(self) -> None:
        answer = make.found(KEY, reward=None)
        assert outcome(make.ended_pod(JOB), answer)[0] is OutcomeClass.INVALID_RESULT

    @pytest.mark.parametrize("pin", [None, make.DIGEST, "sha256:" + "0" * 64, "no digest"])
    def test_the_pin_of_the_image_that_ran_is_held_against_the_ledger(self, pin: str | None) -> None:
        manifest = make.manifest(KEY)
        harness = manifest.result.harness.model_copy(update={"ledger_pin": pin})
        result = manifest.result.model_copy(update={"harness": harness})
        answer = ManifestFound(manifest.model_copy(update={"result": result}), make.DIGEST)
        expected = OutcomeClass.GRADED if pin in (None, make.DIGEST) else OutcomeClass.LEDGER_MISMATCH
        assert outcome(make.ended_pod(JOB), answer)[0] is expected

    def test_another_ledger_stops_the_run(self) -> None:
        other = make.manifest(KEY).model_copy(update={"ledger_digest": "sha256:" + "0" * 64})
        answer = ManifestFound(other, make.DIGEST)
        assert outcome(make.ended_pod(JOB), answer)[0] is OutcomeClass.LEDGER_MISMATCH

    def test_a_manifest_of_another_try_is_no_result(self) -> None:
        other = make.found(KEY._replace(repetition=1))
        assert outcome(make.ended_pod(JOB), other)[0] is OutcomeClass.INVALID_RESULT

    def test_a_reward_is_dropped_where_the_class_is_not_retained(self) -> None:
        found = state(make.ended_pod(JOB), make.found(KEY, OutcomeClass.PROVIDER_FUNDS, 1.0))
        assert isinstance(found, Ended)
        assert found.record.reward is None

    @pytest.mark.parametrize("reward", ["NaN", "true", '"1"', "1.7", "-1", "Infinity", "[1]"])
    def test_a_reward_that_is_no_number_from_0_to_1_makes_it_bad(self, reward: str) -> None:
        text = make.manifest(KEY, reward=0.25).model_dump_json()
        assert isinstance(read_manifest(text.encode()), ManifestFound)
        answer = read_manifest(text.replace('"reward":0.25', f'"reward":{reward}').encode())
        assert isinstance(answer, ManifestBad)
        assert outcome(make.ended_pod(JOB), answer)[0] is OutcomeClass.INVALID_RESULT

    def test_nothing_is_decided_before_s3_has_answered(self) -> None:
        assert state(make.ended_pod(JOB), None) == AskStorage()

    def test_absence_counts_only_some_time_after_the_end(self) -> None:
        early = ManifestAbsent(make.later(61))
        assert state(make.ended_pod(JOB), early) == AskStorage(make.later(60 + SETTLE_SECONDS))

    def test_a_node_whose_clock_is_ahead_puts_nothing_off(self) -> None:
        tomorrow = [make.ended(name, finished_at=make.later(86_400)) for name in ("runner", "verifier")]
        pod = make.pod_view(JOB, *tomorrow, phase=Phase.SUCCEEDED)
        first = ManifestAbsent(make.later(100))
        assert state(pod, first, after=100) == AskStorage(make.later(100 + SETTLE_SECONDS))
        second = ManifestAbsent(make.later(105)).after(ManifestAbsent(make.later(102)).after(first))
        found = state(pod, second, after=105)
        assert isinstance(found, Ended)
        assert found.record.ended_at == make.later(105)
        assert found.record.total_seconds == 105


class TestTerminationMessage:
    @pytest.mark.parametrize(
        ("message", "why"),
        [
            ("", "it is empty"),
            ("Segmentation fault", "it is not JSON"),
            ('{"schemaVersion": 1, "jobNa', "it is not JSON"),
            (make.hint(JOB).replace(make.pod_uid_of(JOB.name), "0" * 36), "it is of another try"),
            (make.hint(JOB) + " " * 1000, "more than 1000"),
            ("[]", "field (root)"),
            (make.hint(JOB).replace('"Graded"', '"Perfect"'), "field outcome"),
        ],
    )
    def test_a_bad_hint_is_ignored_and_named(self, message: str, why: str) -> None:
        found, reason = outcome(make.ended_pod(JOB, message=message))
        assert found is OutcomeClass.RESULT_MISSING
        assert why in reason

    def test_a_hint_is_never_a_result(self) -> None:
        message = make.hint(JOB, OutcomeClass.GRADED, reward=1.0)
        found = state(make.ended_pod(JOB, message=message))
        assert isinstance(found, Ended)
        assert (found.record.outcome, found.record.reward) == (OutcomeClass.RESULT_MISSING, None)

    def test_a_hint_of_a_manifest_that_is_not_there_says_so(self) -> None:
        found, reason = outcome(make.ended_pod(JOB, message=make.hint(JOB, manifest=make.DIGEST)))
        assert found is OutcomeClass.RESULT_MISSING
        assert make.DIGEST in reason

    def test_a_hint_explains_an_end_without_evidence(self) -> None:
        message = make.hint(JOB, OutcomeClass.ARTIFACTS_PARTIAL, reason="S3 refused the fifth file")
        found, reason = outcome(make.ended_pod(JOB, message=message))
        assert found is OutcomeClass.ARTIFACTS_PARTIAL
        assert "S3 refused the fifth file" in reason

    def test_the_kubelet_is_trusted_more_than_the_hint(self) -> None:
        message = make.hint(JOB, OutcomeClass.SETUP_FAILED)
        pod = make.ended_pod(JOB, message=message, conditions=make.true("DisruptionTarget", "Preempted"))
        assert outcome(pod)[0] is OutcomeClass.DISRUPTED


def unscheduled() -> PodView:
    no_room = ConditionView("PodScheduled", "False", "Unschedulable", "0/1 nodes are available", make.NOW)
    return make.pod_view(JOB, phase=Phase.PENDING, conditions={"PodScheduled": no_room})


def unpullable(name: str, **changes: Any) -> PodView:
    wait = ContainerView(name, waiting_reason="ImagePullBackOff", waiting_message="no such image")
    others = (make.ended("inject"), make.container("runner"))
    return make.pod_view(JOB, *others, wait, **{"phase": Phase.PENDING} | changes)


class TestWaiting:
    @pytest.mark.parametrize(
        ("pod", "reason"),
        [
            (unscheduled, Waiting.UNSCHEDULABLE),
            (lambda: unpullable("environment"), Waiting.IMAGE_UNAVAILABLE),
        ],
    )
    def test_waiting_is_no_outcome_until_the_deadline(
        self, pod: Callable[[], PodView], reason: Waiting
    ) -> None:
        before = state(pod(), None, after=599)
        assert isinstance(before, Live)
        assert before.waiting
        assert before.waiting.reason is reason
        assert before.deadline == make.later(600)
        after = state(pod(), None, after=600)
        assert isinstance(after, EndNow)
        assert after.record.outcome is OutcomeClass.INFRA_START
        assert reason.value in after.record.reason

    def test_the_agent_works_while_its_pod_says_pending(self) -> None:
        containers = (make.ended("inject"), make.container("runner"), make.container("environment"))
        wait = ContainerView("verifier", waiting_reason="PodInitializing")
        pod = make.pod_view(JOB, *containers, wait, phase=Phase.PENDING)
        assert state(pod, None, after=100_000) == Live(None)

    def test_a_verifier_that_cannot_start_keeps_the_agents_work(self) -> None:
        wait = ContainerView("verifier", waiting_reason="ErrImagePull", waiting_message="gone")
        worked = (make.ended("inject"), make.container("runner"), make.ended("environment"))
        pod = make.pod_view(JOB, *worked, wait, phase=Phase.RUNNING)
        assert isinstance(state(pod, None, after=659), Live)
        found = state(pod, None, after=660)
        assert isinstance(found, EndNow)
        assert found.record.outcome is OutcomeClass.VERIFIER_CRASH

    def test_a_suspended_job_is_queued_and_nothing_is_counted(self) -> None:
        suspended = replace(JOB, suspended=True)
        for pod in (None, replace(unscheduled(), gone_at=make.later(60))):
            found = state(pod, None, job=suspended, after=100_000)
            assert isinstance(found, Live)
            assert found.waiting
            assert found.waiting.reason is Waiting.QUEUED

    def test_a_job_that_quota_holds_back_stays_queued(self) -> None:
        event = JobEvent("FailedCreate", 'pods "x" is forbidden: exceeded quota: small')
        found = state(None, None, event=event, after=100_000)
        assert isinstance(found, Live)
        assert found.waiting
        assert found.waiting.reason is Waiting.QUOTA_BLOCKED

    def test_a_refused_pod_says_what_the_api_server_says(self) -> None:
        event = JobEvent("FailedCreate", 'pods "x" is forbidden: violates PodSecurity "restricted:latest"')
        found = state(None, None, event=event)
        assert isinstance(found, Live)
        assert found.waiting
        assert (found.waiting.reason, found.waiting.message) == (Waiting.POD_REFUSED, event.message)

    def test_a_pod_that_starts_nothing_says_what_its_newest_event_says(self) -> None:
        waits = [ContainerView(name, waiting_reason="PodInitializing") for name in ("inject", "runner")]
        pod = make.pod_view(JOB, *waits, phase=Phase.PENDING, node="node-1")
        event = JobEvent("FailedMount", 'MountVolume.SetUp failed for volume "gateway-token"')
        assert not starts_late(JOB, pod, make.later(LATE_SECONDS - 1))
        assert starts_late(JOB, pod, make.later(LATE_SECONDS))
        found = state(pod, None, event=event, after=599)
        assert isinstance(found, Live)
        assert found.waiting
        assert found.waiting.reason is Waiting.POD_NOT_STARTED
        assert event.message in found.waiting.message
        ended = state(pod, None, event=event, after=600)
        assert isinstance(ended, EndNow)
        assert ended.record.outcome is OutcomeClass.INFRA_START
        assert event.message in ended.record.reason

    def test_a_pod_that_was_late_and_works_waits_for_nothing(self) -> None:
        pod = make.pod_view(JOB, make.container("runner"), make.container("environment"), node="node-1")
        assert not starts_late(JOB, pod, make.later(3600))
        assert state(pod, None, event=JobEvent("FailedMount", "long ago")) == Live(None)

    def test_a_pod_that_is_being_deleted_still_occupies_its_attempt(self) -> None:
        pod = make.pod_view(JOB, make.container("runner"), make.container("environment"), deleting=True)
        assert isinstance(state(pod, None, job=FAILED_JOB), Live)


class TestWrittenRecord:
    def written(self) -> JobView:
        ended = state(unpullable("environment"), None, after=600)
        assert isinstance(ended, EndNow)
        return replace(FAILED_JOB, record_json=ended.record.to_json())

    def test_it_outlives_the_pod(self) -> None:
        found = state(None, ABSENT, job=self.written())
        assert isinstance(found, Ended)
        assert (found.record.outcome, found.durable) == (OutcomeClass.INFRA_START, True)

    def test_it_wins_over_what_the_ended_runner_proposes(self) -> None:
        pod = make.ended_pod(JOB, 1)
        found = state(pod, make.found(KEY, OutcomeClass.DISRUPTED, None), job=self.written())
        assert isinstance(found, Ended)
        assert found.record.outcome is OutcomeClass.INFRA_START
        assert found.record.manifest_digest

    def test_a_verdict_that_came_in_time_wins_over_it(self) -> None:
        assert outcome(make.ended_pod(JOB), make.found(KEY), job=self.written())[0] is OutcomeClass.GRADED

    def test_one_that_cannot_be_read_is_ignored(self) -> None:
        job = replace(FAILED_JOB, record_json="{")
        assert outcome(make.ended_pod(JOB), make.found(KEY), job=job)[0] is OutcomeClass.GRADED


class TestLostJobs:
    def test_a_job_that_somebody_deleted_is_a_disruption(self) -> None:
        record = lost(JOB, ABSENT, make.later(70))
        assert (record.outcome, record.try_number, record.ended_at) == (
            OutcomeClass.DISRUPTED,
            1,
            make.later(70),
        )
        assert lost(JOB, ManifestBad("no JSON"), make.later(70)).outcome is OutcomeClass.INVALID_RESULT

    def test_deleting_the_job_of_a_try_that_was_decided_earns_no_other_sample(self) -> None:
        oom = state(killed())
        assert isinstance(oom, Ended)
        written = replace(JOB, record_json=oom.record.to_json())
        assert lost(written, ABSENT, make.later(3600)).outcome is OutcomeClass.AGENT_OOM


class TestMutation:
    job = replace(JOB, rendered_digest="sha256:rendered")

    def test_a_pod_that_differs_is_ended_at_once(self) -> None:
        pod = make.pod_view(JOB, make.container("runner"), rendered_digest="sha256:other")
        found = state(pod, None, job=self.job, after=10)
        assert isinstance(found, EndNow)
        assert found.record.outcome is OutcomeClass.POD_MUTATED

    def test_its_verdict_does_not_count(self) -> None:
        pod = replace(make.ended_pod(JOB), rendered_digest="sha256:other")
        found = state(pod, make.found(KEY), job=self.job)
        assert isinstance(found, Ended)
        assert (found.record.outcome, found.record.reward) == (OutcomeClass.POD_MUTATED, None)
