"""The node goes away under an attempt, and comes back: the kubelet is frozen, as a node without power is."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from assay.api.outcome import OutcomeClass
from localcluster import connect
from localcluster.state import State
from tests.e2e.bench import SECONDS, Bench
from tests.e2e.tasks import LEAVE_ANSWER, Task
from tests.e2e.trouble import wait_container

NOTICED_SECONDS = 2 * SECONDS
"""The control plane calls a node lost after 50 s; then the pods' own toleration runs out."""

IMPATIENT = [
    {
        "key": f"node.kubernetes.io/{taint}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 1,
    }
    for taint in ("unreachable", "not-ready")
]


@contextmanager
def kubelet_frozen() -> Iterator[None]:
    """No word from the node, while its containers go on."""
    state = State.read(connect().where)
    pid = state.components["kubelet"].pid if state else None
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.skipif(os.environ.get("CLUSTER") == "current", reason="freezes the kubelet of the local cluster")
def test_an_attempt_whose_node_is_lost_is_run_again_and_told_meanwhile(bench: Bench) -> None:
    task = Task("stranded", solve=f"sleep 20\n{LEAVE_ANSWER}")
    run = bench.run(
        bench.ledger(task),
        bench.variant("oracle"),
        placement={"tolerations": IMPATIENT},
        # Its pods have that long, and 30 s, to leave their evidence before they count as stuck.
        deadlines={"uploadSeconds": 10},
    )
    wait_container(bench, run, "environment")
    with kubelet_frozen():
        told = run.wait_for("Progressing", "False", "StuckTerminating", seconds=NOTICED_SECONDS)
        assert "if its node" in told["message"], "the message says what a person can do"
        assert len(run.jobs()) == 1, "no second try beside a pod that may still run"
    status = run.completed(seconds=NOTICED_SECONDS).status
    lost, passed = sorted(run.recorded(), key=lambda one: one.try_number)
    assert (lost.outcome, passed.outcome) == (OutcomeClass.DISRUPTED, OutcomeClass.GRADED)
    assert "DeletionByTaintManager" in lost.reason
    (row,) = status.vector
    assert (row.score_strict, row.tries, row.infra_errors) == ("1", 2, 1)
