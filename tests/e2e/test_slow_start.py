"""A pod gets a node and its volume cannot be mounted: the run says so, and goes on when that is mended."""

from collections.abc import Iterator
from contextlib import contextmanager

from assay.api.labels import ATTEMPT_SERVICE_ACCOUNT
from demo.kube import Kind
from tests.e2e.bench import OPEN_NAMESPACE, SECONDS, Bench
from tests.e2e.tasks import Task

SERVICE_ACCOUNTS = Kind("v1", "serviceaccounts")
ROOM = "assay.dev/room-for-slow-start"


def test_a_pod_whose_volume_cannot_be_mounted_says_so_and_goes_on_when_it_is_mended(bench: Bench) -> None:
    run = bench.run(
        bench.ledger(Task("unmounted"), namespace=OPEN_NAMESPACE),
        bench.variant("oracle", namespace=OPEN_NAMESPACE),
        namespace=OPEN_NAMESPACE,
        placement={"nodeSelector": {ROOM: "true"}},
    )
    # The pod is there, and no node has taken it yet: nothing races with what follows.
    run.wait_for("Progressing", "False", "Unschedulable")
    with no_service_account(bench), room(bench):
        told = run.wait_for("Progressing", "False", "PodNotStarted", seconds=2 * SECONDS)
    assert "FailedMount" in told["message"]
    assert "gateway-token" in told["message"]
    assert "Next:" in told["message"]
    with room(bench):
        (row,) = run.completed(seconds=2 * SECONDS).status.vector
    assert (row.score_strict, row.tries) == ("1", 1)


@contextmanager
def no_service_account(bench: Bench) -> Iterator[None]:
    """The account whose token attempt pods mount is gone."""
    kept = bench.kube.get(SERVICE_ACCOUNTS, OPEN_NAMESPACE, ATTEMPT_SERVICE_ACCOUNT)
    bench.kube.delete(SERVICE_ACCOUNTS, OPEN_NAMESPACE, ATTEMPT_SERVICE_ACCOUNT)
    try:
        yield
    finally:
        own = {key: kept["metadata"].get(key, {}) for key in ("labels", "annotations")}
        metadata = {"name": ATTEMPT_SERVICE_ACCOUNT, **own}
        bench.kube.create(SERVICE_ACCOUNTS, OPEN_NAMESPACE, {**kept, "metadata": metadata})


@contextmanager
def room(bench: Bench) -> Iterator[None]:
    """A node takes the pod."""
    bench.kubectl("label", "nodes", "--all", "--overwrite", f"{ROOM}=true")
    try:
        yield
    finally:
        bench.kubectl("label", "nodes", "--all", f"{ROOM}-")
