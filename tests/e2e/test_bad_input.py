"""Bad input, with the message that a user sees. All runs start together and wait for one another's tests."""

import dataclasses
from collections.abc import Iterator

import pytest

from demo import model_server
from demo.commands import apply
from demo.errors import DemoError
from demo.install import RUN_NAMESPACE
from demo.kube import CONFIGMAPS, LEDGERS, NETWORK_POLICIES, PODS, RUNS, condition, has_condition
from tests.e2e.bench import OPEN_NAMESPACE, RESTRICTED_NAMESPACE, SECONDS, Bench, unique, variant_manifest
from tests.e2e.node_processes import wait_process
from tests.e2e.tasks import LEAVE_ANSWER, Task
from tests.e2e.trouble import gateway_metric, operator_storage, storage_unreachable

ABSENT_DIGEST = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def plain(bench: Bench) -> str:
    """A ledger with nothing wrong, for runs whose fault is elsewhere."""
    return bench.ledger(Task("plain"))


@pytest.fixture(scope="module")
def oracle(bench: Bench) -> str:
    return bench.variant("oracle")


def test_a_ledger_that_does_not_exist_is_named_and_awaited(bench: Bench, oracle: str) -> None:
    ledger = bench.ledger(Task("later"), applied=False)
    run = bench.run(ledger, oracle)
    found = run.wait_for("LedgersVerified", "False", "LedgerNotFound")
    assert ledger in found["message"]
    assert run.wait_for("Progressing", "False")["reason"] == "WaitingForLedgers"
    assert run.jobs() == []

    apply([bench.manifests[ledger]])
    assert run.completed().status.vector[0].score_strict == "1"


def test_a_variant_that_does_not_exist_is_named_and_awaited(bench: Bench, plain: str) -> None:
    absent = unique("absent")
    run = bench.run(plain, absent)
    assert absent in run.wait_for("VariantsResolved", "False", "VariantNotFound")["message"]
    assert run.jobs() == []

    apply([variant_manifest(absent, RUN_NAMESPACE, "oracle")])
    assert run.completed().status.vector[0].score_strict == "1"


def test_a_ledger_with_another_digest_starts_no_job(bench: Bench, oracle: str) -> None:
    ledger = bench.ledger(Task("changed"), digest=ABSENT_DIGEST)
    run = bench.run(ledger, oracle)
    found = bench.kube.wait(
        LEDGERS,
        RUN_NAMESPACE,
        ledger,
        has_condition("Verified", "False", "DigestMismatch"),
        what="DigestMismatch",
        seconds=SECONDS,
    )
    verified = condition(found, "Verified")
    assert verified is not None
    assert ABSENT_DIGEST in verified["message"]
    assert found["status"]["observedDigest"] in verified["message"]
    assert ledger in run.wait_for("LedgersVerified", "False")["message"]
    assert run.jobs() == []


def test_an_image_that_cannot_be_pulled_is_named(bench: Bench, oracle: str) -> None:
    image = f"assay.test/no-such-image@{ABSENT_DIGEST}"
    run = bench.run(
        bench.ledger(Task("unpullable", image=image)),
        oracle,
        retryLimits={"infrastructure": 0},
        deadlines={"pendingSeconds": 30},
    )
    assert "no-such-image" in run.wait_for("Progressing", "False", "ImageUnavailable")["message"]
    run.wait_for("Failed", reason="NoValidAttempt")
    ended = run.now()
    assert (ended.status.attempts.invalid, ended.status.attempts.recorded) == (1, 0)
    (failure,) = ended.status.recent_failures
    assert failure.outcome == "InfraStart"
    assert "no-such-image" in failure.message
    # Never a silent zero: the row has no valid score, and the strict one says how much is missing.
    (row,) = ended.status.vector
    assert (row.score_valid, row.valid, row.planned) == (None, 0, 1)


def test_a_task_with_docker_compose_is_refused_before_it_is_frozen(bench: Bench) -> None:
    with pytest.raises(DemoError, match=r"composed.*docker-compose\.yaml"):
        bench.ledger(Task("composed", compose=True))


def test_a_pod_without_room_on_any_node_says_what_the_scheduler_says(
    bench: Bench, plain: str, oracle: str
) -> None:
    run = bench.run(plain, oracle, placement={"nodeSelector": {"assay.dev/no-such-node": "true"}})
    found = run.wait_for("Progressing", "False", "Unschedulable")
    assert "node(s) didn't match Pod's node affinity/selector" in found["message"]
    run.wait(lambda found: found["status"]["attempts"]["live"] == 1, "its try is live, and waits")

    (pod,) = run.pods()
    bench.kube.delete(RUNS, run.namespace, run.name)
    bench.kube.wait_gone(PODS, run.namespace, pod["metadata"]["name"], seconds=SECONDS)


def test_a_namespace_that_refuses_the_pod_says_why(bench: Bench) -> None:
    ledger = bench.ledger(Task("refused"), namespace=RESTRICTED_NAMESPACE)
    variant = bench.variant("oracle", namespace=RESTRICTED_NAMESPACE)
    run = bench.run(ledger, variant, namespace=RESTRICTED_NAMESPACE)
    found = run.wait_for("Progressing", "False", "PodsRefused")
    assert 'violates PodSecurity "restricted' in found["message"]


@pytest.fixture
def unenforced(bench: Bench) -> Iterator[str]:
    """A namespace whose network policies are gone, as where a cluster's network ignores them."""
    policies = bench.kube.items(NETWORK_POLICIES, OPEN_NAMESPACE)
    for policy in policies:
        bench.kube.delete(NETWORK_POLICIES, OPEN_NAMESPACE, policy["metadata"]["name"])
    yield OPEN_NAMESPACE
    for policy in policies:
        kept = {key: policy["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
        bench.kube.create(NETWORK_POLICIES, OPEN_NAMESPACE, {**policy, "metadata": kept})


def test_a_network_that_isolates_nothing_stops_the_run(bench: Bench, unenforced: str) -> None:
    marker = "the agent must not have run"
    ledger = bench.ledger(Task("exposed", solve=f"echo '{marker}'"), namespace=unenforced)
    run = bench.run(ledger, bench.variant("oracle", namespace=unenforced), namespace=unenforced)
    stopped = run.wait_for("Suspended", reason="IsolationAbsent")
    assert "NetworkPolicy" in stopped["message"]
    (left,) = run.evidence()
    assert any(probe.reachable for probe in left.manifest.result.isolation)
    assert marker.encode() not in left.everything()


def test_a_missing_bucket_is_named_and_awaited(bench: Bench, plain: str, oracle: str) -> None:
    bucket = unique("bucket")
    run = bench.run(plain, oracle, storage={"s3": {"bucket": bucket}})
    found = run.wait_for("Progressing", "False", "WaitingForStorage")
    assert bucket in found["message"]
    assert run.jobs() == []

    bench.store.client.create_bucket(Bucket=bucket)
    assert run.completed().status.vector[0].score_strict == "1"
    (left,) = run.evidence()
    left.assert_complete()


def test_a_variant_whose_secret_is_missing_stops_with_its_name(bench: Bench, plain: str) -> None:
    secret = unique("secret")
    model = {
        "role": "main",
        "name": "openai/scripted",
        "provider": {
            "endpoint": model_server.ENDPOINT,
            "api": "OpenAIChat",
            "secretRef": {"name": secret, "key": "api-key"},
        },
    }
    run = bench.run(plain, bench.variant("terminus-2", models=[model]), retryLimits={"infrastructure": 0})
    found = run.wait_for("Suspended", reason="SecretMissing")
    assert secret in found["message"]


def test_a_ledger_in_a_configmap_that_lacks_the_key_is_named(bench: Bench, oracle: str) -> None:
    name = unique("ledger")
    bench.kube.create(CONFIGMAPS, RUN_NAMESPACE, {"metadata": {"name": name}, "data": {"other.jsonl": "{}"}})
    ledger = {
        "apiVersion": "assay.dev/v1alpha1",
        "kind": "Ledger",
        "metadata": {"name": name, "namespace": RUN_NAMESPACE},
        "spec": {
            "benchmark": {"name": "absent", "version": "1"},
            "digest": ABSENT_DIGEST,
            "source": {"configMap": {"name": name}},
        },
    }
    apply([ledger])
    found = bench.kube.wait(
        LEDGERS,
        RUN_NAMESPACE,
        name,
        has_condition("Verified", "False", "SourceNotFound"),
        what="x",
        seconds=SECONDS,
    )
    verified = condition(found, "Verified")
    assert verified is not None
    assert "ledger.jsonl" in verified["message"]


def test_a_wrong_storage_key_waits_and_loses_nothing(bench: Bench, plain: str, oracle: str) -> None:
    wrong = dataclasses.replace(bench.target.storage, secret_key="wrong")
    with operator_storage(bench, wrong):
        run = bench.run(plain, oracle)
        # The ledger lies there too, so it is the first thing that cannot be read.
        found = run.wait_for("LedgersVerified", "False")
        assert f"s3://{bench.bucket}/" in found["message"]
        assert "check AWS_SECRET_ACCESS_KEY" in found["message"]
        assert run.wait_for("Progressing", "False")["reason"] == "WaitingForLedgers"
        assert run.jobs() == []
    assert run.completed().status.vector[0].score_strict == "1"


def test_storage_that_goes_away_in_the_middle_loses_nothing(bench: Bench, oracle: str) -> None:
    """The store vanishes while the agent works: the evidence waits in the pod, and is uploaded later."""
    ledger = bench.ledger(Task("outage", solve=f"sleep 10\n{LEAVE_ANSWER}"))
    run = bench.run(ledger, oracle)
    # Only now: before that the runner still fetches the task, which waits in another way.
    wait_process(bench, run, lambda one: one.command == ["sleep", "10"], "the agent's work")
    before = gateway_metric(bench, "assay_gateway_requests_total", code="StorageUnavailable")
    with storage_unreachable(bench):
        bench.until(
            lambda: gateway_metric(bench, "assay_gateway_requests_total", code="StorageUnavailable") > before,
            "the gateway refuses evidence because the store is away",
        )
    completed = run.completed(seconds=300)
    assert completed.status.vector[0].score_strict == "1"
    assert completed.status.vector[0].tries == 1
    (left,) = run.evidence()
    left.assert_complete()
