"""Gateways die under load; no evidence is lost."""

import http.client
from collections.abc import Iterator

import pytest

from demo import model_server
from demo.install import RUN_NAMESPACE
from demo.kube import PODS
from tests.e2e.bench import Bench, RunHandle
from tests.e2e.caller import caller, open_stream
from tests.e2e.tasks import CHECK_ANSWER, LEAVE_ANSWER, Task
from tests.e2e.trouble import GATEWAY, gateway_metric, kill, ready_pod

MIB = 1 << 20
LARGE = 200 * MIB


def _uploading(bench: Bench, run: RunHandle) -> bool:
    """Whether a multipart upload of the run's evidence is open."""
    current = run.now()
    prefix = f"{current.spec.storage.s3.prefix}{current.metadata.uid}/"
    answer = bench.store.client.list_multipart_uploads(Bucket=bench.bucket, Prefix=prefix)
    return bool(answer.get("Uploads"))


def test_gateways_killed_in_the_middle_of_an_upload_lose_nothing(bench: Bench) -> None:
    solve = f"{LEAVE_ANSWER}\nhead -c {LARGE} /dev/urandom > /logs/artifacts/large.bin"
    ledger = bench.ledger(Task("large", solve=solve, test=CHECK_ANSWER))
    run = bench.run(ledger, bench.variant("oracle"))
    # On a fast machine the upload is a matter of a second.
    bench.until(lambda: _uploading(bench, run), "a large file is on its way into the store", pause=0.02)
    kill(bench, RUN_NAMESPACE, GATEWAY)

    status = run.completed(seconds=300).status
    assert status.vector[0].score_strict == "1"
    assert (status.vector[0].tries, status.vector[0].infra_errors) == (1, 0)
    (left,) = run.evidence()
    left.assert_complete()
    sizes = {file.path.rpartition("/")[2]: file.size for file in left.manifest.files}
    assert sizes["large.bin"] == LARGE
    assert gateway_metric(bench, "assay_gateway_evidence_bytes_total") > 0


SLOW = "scripted/slow"


@pytest.fixture
def token(bench: Bench) -> Iterator[str]:
    """The token of a try whose variant declares a model that streams slowly."""
    model_server.start_model_server(bench.target)
    provider = {
        "endpoint": model_server.ENDPOINT,
        "api": "OpenAIChat",
        "secretRef": {"name": model_server.SECRET, "key": "api-key"},
    }
    with caller(bench, {"role": "main", "name": SLOW, "provider": provider}) as held:
        yield held


def _a_gateway(bench: Bench) -> tuple[str, str]:
    """Name and address of one of the ready gateways."""
    pod = ready_pod(bench, RUN_NAMESPACE, GATEWAY)
    return pod["metadata"]["name"], pod["status"]["podIP"]


def test_a_gateway_that_is_told_to_stop_finishes_the_streamed_answer(bench: Bench, token: str) -> None:
    name, address = _a_gateway(bench)
    with open_stream(address, token, SLOW) as answer:
        assert answer.status == 200
        first = answer.readline()
        bench.kube.delete(PODS, RUN_NAMESPACE, name)
        bench.kube.wait(
            PODS,
            RUN_NAMESPACE,
            name,
            lambda pod: "deletionTimestamp" in pod["metadata"],
            what="the gateway was told to stop",
            seconds=30,
        )
        rest = answer.read()
    assert first.startswith(b"data: ")
    assert rest.rstrip().endswith(b"data: [DONE]")


def test_a_gateway_that_is_lost_cuts_the_answer_visibly(bench: Bench, token: str) -> None:
    name, address = _a_gateway(bench)
    with open_stream(address, token, SLOW) as answer:
        assert answer.readline().startswith(b"data: ")
        bench.kube.delete(PODS, RUN_NAMESPACE, name, grace_seconds=0)
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            answer.read()

    # The other replica, or the one that takes its place, answers the repeated call whole.
    bench.until(lambda: _a_gateway(bench)[0] != name, "another gateway is ready")
    with open_stream(_a_gateway(bench)[1], token, SLOW) as answer:
        assert answer.read().rstrip().endswith(b"data: [DONE]")
