"""Gateways die under load; no evidence is lost."""

from demo.install import RUN_NAMESPACE
from tests.e2e.bench import Bench, RunHandle
from tests.e2e.tasks import CHECK_ANSWER, LEAVE_ANSWER, Task
from tests.e2e.trouble import GATEWAY, gateway_metric, kill

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
    bench.until(lambda: _uploading(bench, run), "a large file is on its way into the store")
    kill(bench, RUN_NAMESPACE, GATEWAY)

    status = run.completed(seconds=300).status
    assert status.vector[0].score_strict == "1"
    assert (status.vector[0].tries, status.vector[0].infra_errors) == (1, 0)
    (left,) = run.evidence()
    left.assert_complete()
    sizes = {file.path.rpartition("/")[2]: file.size for file in left.manifest.files}
    assert sizes["large.bin"] == LARGE
    assert gateway_metric(bench, "assay_gateway_evidence_bytes_total") > 0
