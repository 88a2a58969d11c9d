"""The rendered attempt pod: what keeps agent, runner and verifier apart (design §5)."""

import json
from dataclasses import replace
from typing import Any

import pytest

from assay.api.ledgerfile import (
    NetworkMode,
    Plan,
    ResourceMultiples,
    TaskImages,
    TaskLine,
    VerifierMode,
)
from assay.api.tryspec import TrySpec
from assay.core.attempt_pod import Images, RenderRefused, render_job, rewrite
from assay.core.observation import rendered_digest
from assay.core.plan import RunVariant, make_plan
from assay.core.reconcile import name_of
from assay.core.try_spec import make_try_spec
from tests.operator_kit import builders as make

IMAGES = Images(f"assay.test/runner@{make.DIGEST}", f"assay.test/sandboxd@{make.DIGEST}")
GATEWAY = "10.0.0.7"


def render(
    task: TaskLine | None = None,
    *,
    plan: Plan | None = None,
    variant: RunVariant | None = None,
    runner_image: str | None = None,
    **spec: Any,
) -> dict[str, Any]:
    run = make.run_object(**spec)
    ledger = make.run_ledger(tasks=[task or make.task()], plan=plan)
    if runner_image:
        ledger = replace(ledger, runner_image=runner_image)
    made = make_plan(run.spec, make.RUN_UID, [ledger], [variant or make.run_variant()])
    (key,) = made.attempts
    try_spec = make_try_spec(run, made, key, 1, name_of(make.RUN_UID, key, 1))
    return render_job(run, made, try_spec, IMAGES, GATEWAY)


def pod(job: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = job["spec"]["template"]["spec"]
    return spec


def containers(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    spec = pod(job)
    return {one["name"]: one for one in (*spec["initContainers"], *spec["containers"])}


def mounted(job: dict[str, Any], volume: str) -> set[str]:
    return {
        name
        for name, one in containers(job).items()
        if any(mount["name"] == volume for mount in one["volumeMounts"])
    }


def test_the_verifier_starts_only_after_the_environment_has_ended() -> None:
    spec = pod(render())
    assert [one["name"] for one in spec["initContainers"]] == ["inject", "runner", "environment"]
    assert [one["name"] for one in spec["containers"]] == ["verifier"]
    assert spec["initContainers"][1]["restartPolicy"] == "Always", "the runner is a native sidecar"
    assert "restartPolicy" not in spec["initContainers"][2]


def test_shared_mode_has_no_verifier() -> None:
    job = render(make.task(verifier_mode=VerifierMode.SHARED))
    assert [one["name"] for one in pod(job)["containers"]] == ["environment"]
    assert "verifier" not in json.dumps(pod(job)["volumes"])


def test_only_the_runner_holds_the_token_and_the_try_spec() -> None:
    job = render()
    assert mounted(job, "gateway-token") == {"runner"}
    assert mounted(job, "try") == {"runner"}
    assert mounted(job, "work") == {"runner"}
    assert pod(job)["automountServiceAccountToken"] is False


def test_siblings_share_no_volume() -> None:
    job = render()
    for name in ("environment", "verifier"):
        assert mounted(job, f"sock-{name}") == {"runner", name}
        assert mounted(job, f"bin-{name}") == {"inject", name}
        (binary,) = [one for one in containers(job)[name]["volumeMounts"] if one["name"].startswith("bin-")]
        assert binary["readOnly"] is True


def test_no_credential_is_in_the_job() -> None:
    model = {
        "role": "main",
        "name": "m",
        "provider": {
            "endpoint": "https://api.example/v1",
            "api": "OpenAIChat",
            "secretRef": {"name": "keys", "key": "k"},
        },
    }
    job = render(variant=make.run_variant(spec=make.variant_spec(models=[model])))
    assert "secretKeyRef" not in json.dumps(job)
    spec = TrySpec.model_validate_json(
        job["spec"]["template"]["metadata"]["annotations"]["assay.dev/try-spec"]
    )
    assert spec.models[0].secret_ref is not None


def test_requests_and_limits_are_separate_multiples_for_both_siblings() -> None:
    plan = Plan(resources=ResourceMultiples(request_percent=25, limit_percent=100))
    job = render(plan=plan)
    for name in ("environment", "verifier"):
        resources = containers(job)[name]["resources"]
        assert resources["requests"] == {"cpu": "250m", "memory": "512Mi", "ephemeral-storage": "2560Mi"}
        assert resources["limits"] == {"cpu": "1000m", "memory": "2048Mi", "ephemeral-storage": "10240Mi"}


def test_the_pod_meets_the_security_level_baseline_and_cannot_sniff() -> None:
    spec = pod(render())
    for one in (*spec["initContainers"], *spec["containers"]):
        context = one["securityContext"]
        assert "privileged" not in context
        assert "add" not in context["capabilities"]
        assert set(context["capabilities"]["drop"]) & {"ALL", "NET_RAW"}
    assert not any("hostPath" in volume for volume in spec["volumes"])
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_a_task_without_network_has_no_dns_and_knows_the_gateway() -> None:
    job = render()
    assert pod(job)["dnsPolicy"] == "None"
    assert pod(job)["hostAliases"] == [{"ip": GATEWAY, "hostnames": ["assay-gateway.internal"]}]
    assert job["spec"]["template"]["metadata"]["labels"]["assay.dev/network"] == "none"


def test_a_task_with_internet_has_dns() -> None:
    job = render(make.task(network=NetworkMode.INTERNET))
    assert pod(job)["dnsPolicy"] == "ClusterFirst"
    assert job["spec"]["template"]["metadata"]["labels"]["assay.dev/network"] == "internet"


def test_the_operator_alone_retries_and_nothing_is_cleaned_up_behind_it() -> None:
    job = render()
    assert job["spec"]["backoffLimit"] == 0
    assert pod(job)["restartPolicy"] == "Never"
    assert not {"activeDeadlineSeconds", "ttlSecondsAfterFinished"} & set(job["spec"])


def test_the_pod_outlasts_all_its_phases() -> None:
    spec = pod(render(deadlines={"pendingSeconds": 100, "uploadSeconds": 60}))
    assert spec["activeDeadlineSeconds"] > 100 + 600 + 3600 + 600 + 60
    assert spec["terminationGracePeriodSeconds"] == 60 + 30


def test_sandboxd_stays_while_evidence_is_saved_after_a_sigterm() -> None:
    job = render(deadlines={"uploadSeconds": 60})
    for name in ("environment", "verifier"):
        command = containers(job)[name]["command"]
        assert command[command.index("--grace") + 1] == "90s", "the pod's own grace period, not a default"


def test_the_run_owns_the_job() -> None:
    (owner,) = render()["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["kind"], owner["controller"]) == (make.RUN_UID, "EvaluationRun", True)


def test_placement_reaches_the_pod() -> None:
    job = render(
        placement={
            "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "agents", "operator": "Exists", "effect": "NoSchedule"}],
            "priorityClassName": "low",
            "runtimeClassName": "gvisor",
            "imagePullSecrets": [{"name": "registry"}],
        }
    )
    spec = pod(job)
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert spec["tolerations"] == [{"key": "agents", "operator": "Exists", "effect": "NoSchedule"}]
    assert (spec["priorityClassName"], spec["runtimeClassName"]) == ("low", "gvisor")
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert "imageRewrites" not in spec


def test_mirrors_replace_the_longest_prefix_and_keep_the_digest() -> None:
    job = render(
        placement={
            "imageRewrites": [
                {"from": "assay.test/", "to": "mirror.example/a/"},
                {"from": "assay.test/task", "to": "mirror.example/b/task"},
            ]
        }
    )
    images = {name: one["image"] for name, one in containers(job).items()}
    assert images["environment"] == f"mirror.example/b/task@{make.DIGEST}"
    assert images["runner"] == f"mirror.example/a/runner@{make.DIGEST}"
    assert rewrite("other/image", []) == "other/image"


def test_the_ledgers_own_runner_image_wins() -> None:
    own = f"bench.example/runner@{make.DIGEST}"
    assert containers(render(runner_image=own))["runner"]["image"] == own


def test_the_verifiers_own_image_is_used() -> None:
    verifier = f"assay.test/verifier@{make.DIGEST}"
    images = TaskImages(environment=make.IMAGE, verifier=verifier)
    assert containers(render(make.task(images=images)))["verifier"]["image"] == verifier


def test_kueue_gets_its_label_and_a_suspended_job() -> None:
    job = render(queueName="evals")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "evals"
    assert job["spec"]["suspend"] is True
    assert render()["spec"]["suspend"] is False


def test_pods_ask_not_to_be_consolidated() -> None:
    annotations = render()["spec"]["template"]["metadata"]["annotations"]
    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    assert annotations["karpenter.sh/do-not-disrupt"] == "true"


def test_the_rendered_digest_is_of_the_pod_and_changes_with_it() -> None:
    job = render()
    annotations = job["spec"]["template"]["metadata"]["annotations"]
    try_spec = annotations["assay.dev/try-spec"]
    digest = job["metadata"]["annotations"]["assay.dev/rendered-digest"]
    assert rendered_digest(pod(job), try_spec) == digest
    changed = json.loads(json.dumps(pod(job)))
    changed["containers"].append({"name": "sidecar", "image": "mesh"})
    assert rendered_digest(changed, try_spec) != digest
    assert rendered_digest({**pod(job), "nodeName": "n", "tolerations": []}, try_spec) == digest


def test_a_try_spec_that_does_not_fit_is_refused() -> None:
    arguments = {f"a{number}": "x" * 4096 for number in range(17)}
    variant = make.run_variant(spec=make.variant_spec(agent={"name": "oracle", "arguments": arguments}))
    with pytest.raises(RenderRefused, match="shorten its arguments"):
        render(variant=variant)


def test_two_long_names_never_share_a_job() -> None:
    names = {render(make.task("x" * 200 + end))["metadata"]["name"] for end in ("1", "2")} | {
        render(make.task(name))["metadata"]["name"] for name in ("x__Y-1", "x--y_1")
    }
    assert len(names) == 4
    assert all(len(name) <= 63 for name in names)
