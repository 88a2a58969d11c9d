"""A verdict that failed is tried again on the same artefacts, on real pods: the agent runs exactly once."""

import tarfile
from collections import defaultdict
from io import BytesIO
from typing import NamedTuple

import pytest

from assay.api.attempt_record import VERDICT_FAILED, AttemptRecord
from assay.api.evidence import ARTIFACTS
from assay.api.outcome import OutcomeClass
from demo.kube import PODS, Object
from tests.e2e.bench import Bench, RunHandle
from tests.e2e.evidence import TryEvidence
from tests.e2e.tasks import CHECK_ANSWER, Task

SAMPLE = (
    "mkdir -p /logs/artifacts && echo done $(cat /proc/sys/kernel/random/uuid) > /logs/artifacts/answer.txt"
)
"""An answer that no second run of the agent would give again."""
SHOW = "mkdir -p /logs/verifier && cp /logs/artifacts/answer.txt /logs/verifier/seen.txt"
HANGS_IN_THE_FIRST_POD = "case $(cat /proc/sys/kernel/hostname) in *-t1-*) sleep 600;; esac"
CRASHES_WITHOUT_AN_ANSWER = "grep -q done /logs/artifacts/answer.txt || exit 1"


class Attempt(NamedTuple):
    """Task and variant; each has one repetition here."""

    task: str
    variant: str


class Story(NamedTuple):
    """One run for all tests of this file, and a pod of it that only verified, as it was seen."""

    oracle: str
    nop: str
    run: RunHandle
    pod: Object

    def tries(self, task: str, variant: str) -> list[TryEvidence]:
        found = defaultdict(list)
        for one in self.run.evidence():
            identity = one.manifest.identity
            found[Attempt(identity.task, identity.variant)].append(one)
        (key,) = [key for key in found if key.task.endswith(task) and key.variant == variant]
        return sorted(found[key], key=lambda one: one.manifest.identity.try_number)

    def records(self) -> list[AttemptRecord]:
        """The attempt records that the report was made of."""
        place = self.run.now().status.report
        assert place is not None
        key = f"{place.key.rpartition('/')[0]}/attempts.jsonl"
        lines = self.run.bench.store.get_bytes(place.bucket, key, 1 << 20).splitlines()
        return [AttemptRecord.model_validate_json(line) for line in lines]


@pytest.fixture(scope="module")
def story(bench: Bench) -> Story:
    ledger = bench.ledger(
        Task("hangs", solve=SAMPLE, test=f"{HANGS_IN_THE_FIRST_POD}\n{SHOW}\n{CHECK_ANSWER}"),
        Task("crashes", solve=SAMPLE, test=f"{CRASHES_WITHOUT_AN_ANSWER}\n{CHECK_ANSWER}"),
    )
    oracle, nop = bench.variant("oracle"), bench.variant("nop")
    run = bench.run(
        ledger,
        [oracle, nop],
        deadlines={"verifierSeconds": 15},
        retryLimits={"verification": 2},
        repetitions=1,
    )
    pod = bench.kube.wait_any(
        PODS,
        run.namespace,
        run.selector,
        lambda pod: "-t2-" in pod["metadata"]["name"],
        what="a second try",
        seconds=300,
    )
    run.completed(seconds=480)
    return Story(oracle, nop, run, pod)


def test_a_pod_that_only_verifies_has_no_place_for_an_agent(story: Story) -> None:
    spec = story.pod["spec"]
    assert [one["name"] for one in spec["initContainers"]] == ["inject", "runner"]
    assert [one["name"] for one in spec["containers"]] == ["verifier"]


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1), ("nop", 0)])
def test_a_verifier_that_hung_judges_the_same_artefacts_in_the_next_pod(
    story: Story, agent: str, reward: int
) -> None:
    first, second = story.tries("hangs", getattr(story, agent))
    assert first.manifest.result.outcome is OutcomeClass.VERIFIER_TIMEOUT
    assert (second.manifest.result.outcome, second.manifest.result.reward) == (OutcomeClass.GRADED, reward)
    assert [one.manifest.result.seconds.agent is not None for one in (first, second)] == [True, False]
    assert second.manifest.verify_only is not None
    assert second.manifest.verify_only.pod_uid == first.manifest.pod_uid
    for one in (first, second):
        one.assert_complete()
    if agent == "oracle":
        with tarfile.open(fileobj=BytesIO(first.read(ARTIFACTS))) as archive:
            crossed = archive.extractfile("logs/artifacts/answer.txt")
            assert crossed is not None
            assert crossed.read() == second.read("trial/verifier/seen.txt")


def test_verdicts_that_fail_again_and_again_count_0_where_the_oracle_passes(story: Story) -> None:
    (solved,) = story.tries("crashes", story.oracle)
    assert solved.manifest.result.reward == 1
    tries = story.tries("crashes", story.nop)
    assert [one.manifest.result.outcome for one in tries] == [OutcomeClass.VERIFIER_CRASH] * 3
    assert [one.manifest.result.seconds.agent is not None for one in tries] == [True, False, False]


def test_status_journal_and_report_say_so(story: Story) -> None:
    status = story.run.now().status
    rows = {row.variant: row for row in status.vector}
    assert {name: (row.score_strict, row.coverage) for name, row in rows.items()} == {
        story.oracle: ("1", "1"),
        story.nop: ("0", "1"),
    }
    assert {name: (row.tries, row.flagged) for name, row in rows.items()} == {
        story.oracle: (3, 0),
        story.nop: (5, 1),
    }
    recorded = story.run.recorded()
    assert sorted(one.verifies or 0 for one in recorded) == [0, 0, 0, 0, 1, 1, 1, 1]

    records = story.records()
    (graded,) = [one for one in records if one.verifies and one.variant == story.oracle]
    (judged,) = [
        one for one in records if one.figures_in == graded.try_number and one.variant == story.oracle
    ]
    assert graded.retained
    assert graded.seconds.agent == judged.seconds.agent
    assert graded.harness.agent_version == judged.harness.agent_version
    (zero,) = [one for one in records if VERDICT_FAILED in one.flags]
    assert (zero.retained, zero.outcome, zero.try_number) == (True, OutcomeClass.VERIFIER_CRASH, 3)
