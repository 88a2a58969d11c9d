"""`make demo`'s own command, with the operator killed in the middle: the result is the same."""

import base64
import json
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from assay.api.evaluation_run import EvaluationRun
from demo import model_server
from demo.install import ROOT, RUN_NAMESPACE, SYSTEM_NAMESPACE
from demo.kube import RUNS, SECRETS
from tests.e2e.bench import Bench, RunHandle
from tests.e2e.trouble import OPERATOR, kill

pytestmark = pytest.mark.timeout(1500)

BASELINE = "terminus-2-hasty"
AGENTS = ("terminus-2", BASELINE)
VARIANTS = ("oracle", "nop", *AGENTS)
TASKS = 6
ATTEMPTS = TASKS * len(VARIANTS)


@dataclass
class Demonstration:
    output: str
    status: int
    run: RunHandle

    @property
    def finished(self) -> EvaluationRun:
        return self.run.now()


@pytest.fixture(scope="module")
def demonstration(bench: Bench) -> Demonstration:
    """The demonstration as a user sees it, and its run."""
    before = {found["metadata"]["name"] for found in bench.kube.items(RUNS, RUN_NAMESPACE)}
    command = [sys.executable, "-u", "-m", "demo", "run"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            made = bench.kube.wait_any(
                RUNS,
                RUN_NAMESPACE,
                "",
                lambda found: (
                    found["metadata"]["name"].startswith("demo-")
                    and found["metadata"]["name"] not in before
                    and found.get("status", {}).get("attempts", {}).get("recorded", 0) >= 2
                ),
                what="the demonstration's run has recorded two attempts",
                seconds=400,
            )
            kill(bench, SYSTEM_NAMESPACE, OPERATOR)
            output, _ = process.communicate(timeout=1000)
        finally:
            process.kill()
    assert process.returncode == 0, output
    return Demonstration(
        output, process.returncode, RunHandle(bench, RUN_NAMESPACE, made["metadata"]["name"])
    )


def test_the_vector_is_what_the_tasks_were_made_for(demonstration: Demonstration) -> None:
    rows = {row.variant: row for row in demonstration.finished.status.vector}
    assert set(rows) == set(VARIANTS)
    assert {row.valid for row in rows.values()} == {TASKS}
    assert (rows["oracle"].score_strict, rows["nop"].score_strict) == ("1", "0")
    hasty, patient = (float(rows[name].score_strict or -1) for name in (BASELINE, "terminus-2"))
    assert 0 < hasty < patient < 1
    assert float(rows["terminus-2"].shift or 0) == pytest.approx(patient - hasty, abs=1e-3)


def test_the_killed_operator_did_nothing_twice(demonstration: Demonstration) -> None:
    for row in demonstration.finished.status.vector:
        assert (row.tries, row.infra_errors) == (TASKS, 0)
    assert len(demonstration.run.recorded()) == ATTEMPTS
    assert len(demonstration.run.evidence()) == ATTEMPTS


def test_a_real_agents_companions_are_known(demonstration: Demonstration) -> None:
    rows = {row.variant: row for row in demonstration.finished.status.vector}
    for row in (rows[name] for name in AGENTS):
        for figure in (
            row.input_tokens,
            row.output_tokens,
            row.agent_seconds,
            row.total_seconds,
            row.cost_usd,
        ):
            assert figure is not None
            assert float(figure.mean) > 0
            assert figure.n == TASKS
        assert row.harbor_version


def test_the_screen_shows_progress_table_and_evidence(demonstration: Demonstration) -> None:
    shown = demonstration.output
    assert f"{ATTEMPTS} of {ATTEMPTS} attempts recorded" in shown
    assert "NOT PUBLISHABLE" in shown
    assert "there is no baseline" not in shown
    for variant in VARIANTS:
        assert re.search(rf"{variant}.*6/6", shown), shown
    prefix = demonstration.finished.status.evidence_prefix
    assert prefix
    assert prefix in shown
    resolved = demonstration.finished.status.resolved
    assert resolved
    assert resolved.ledgers[0].digest in shown


def test_every_attempt_left_complete_evidence(demonstration: Demonstration) -> None:
    evidence = demonstration.run.evidence()
    seen = {(left.manifest.identity.task, left.manifest.identity.variant) for left in evidence}
    assert len(seen) == len(evidence) == ATTEMPTS
    for left in evidence:
        left.assert_complete()


def test_every_model_call_is_on_record(demonstration: Demonstration) -> None:
    for left in demonstration.run.evidence():
        calls = left.calls()
        assert bool(calls) == (left.manifest.identity.variant in AGENTS)
        for call in calls:
            assert call["status"] == 200
            assert call["request"]["messages"]
            assert call["tokens"]["input"] > 0


def test_the_providers_key_is_in_no_evidence(bench: Bench, demonstration: Demonstration) -> None:
    secret = bench.kube.get(SECRETS, RUN_NAMESPACE, model_server.SECRET)
    key = base64.b64decode(secret["data"]["api-key"])
    for left in demonstration.run.evidence():
        assert key not in left.everything()


def test_kubectl_tells_the_story(bench: Bench, demonstration: Demonstration) -> None:
    name = demonstration.run.name
    listed = bench.kubectl("get", "evaluationruns", name, "-n", RUN_NAMESPACE)
    heading, row = (re.split(r"\s{2,}", line.strip()) for line in listed.strip().splitlines())
    shown = dict(zip(heading, row, strict=True))
    assert (shown["COMPLETE"], shown["RECORDED"], shown["PLANNED"]) == ("True", str(ATTEMPTS), str(ATTEMPTS))

    described = demonstration.run.described()
    assert f"{ATTEMPTS} of {ATTEMPTS} attempts have a score" in described
    assert "Publishable" in described
    for variant in VARIANTS:
        assert variant in described
    reasons = {event["reason"] for event in demonstration.run.events()}
    assert reasons, "events tell the transitions"


def test_the_evidence_command_lists_every_try(demonstration: Demonstration) -> None:
    command = [sys.executable, "-m", "demo", "evidence", demonstration.run.name]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert listed.count("Graded") == ATTEMPTS


def test_a_second_demonstration_makes_another_run(bench: Bench, demonstration: Demonstration) -> None:
    from demo.runs import next_name, unfinished

    assert next_name(bench.kube, RUN_NAMESPACE) != demonstration.run.name
    (ledger,) = (item.name for item in demonstration.finished.spec.ledgers)
    assert unfinished(bench.kube, RUN_NAMESPACE, ledger) is None


def test_status_stays_small(bench: Bench, demonstration: Demonstration) -> None:
    body = bench.kube.get(RUNS, RUN_NAMESPACE, demonstration.run.name)
    assert len(json.dumps(body["status"])) < 128 * 1024
