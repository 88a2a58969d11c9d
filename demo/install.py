"""Puts Assay on a cluster as docs/install.md tells a user to: namespaces, the storage Secret, the chart."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from demo.commands import apply, run, run_module
from demo.errors import DemoError
from demo.kube import Kube
from demo.rollout import await_rollout
from demo.target import Storage, Target

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "assay"
RELEASE = "assay"
SYSTEM_NAMESPACE = "assay-system"
RUN_NAMESPACE = "evals"
STORAGE_SECRET = "assay-storage"  # noqa: S105  its name


def install(
    target: Target, namespaces: Sequence[str] = (RUN_NAMESPACE,), values: Mapping[str, Any] | None = None
) -> None:
    """Creates what the chart expects, installs or upgrades it, and waits until all its pods are ready.

    `values` are laid over those of `chart_values`. Raises DemoError.
    """
    prepare_namespaces(target.storage, namespaces)
    merged = _merge(chart_values(target, namespaces), values or {})
    command = ["helm", "upgrade", "--install", RELEASE, str(CHART), "--namespace", SYSTEM_NAMESPACE]
    run([*command, "--values", "-", "--timeout", "2m"], stdin=json.dumps(merged))
    with Kube(target.kubeconfig) as kube:
        await_rollout(kube, SYSTEM_NAMESPACE, "assay-operator")
        for namespace in namespaces:
            await_rollout(kube, namespace, "assay-gateway")


def served_namespaces() -> list[str]:
    """The namespaces of runs that an installed release serves; an upgrade must not take them away."""
    releases = json.loads(run(["helm", "list", "--namespace", SYSTEM_NAMESPACE, "--all", "--output", "json"]))
    if not any(release["name"] == RELEASE for release in releases):
        return []
    values = run(["helm", "get", "values", RELEASE, "--namespace", SYSTEM_NAMESPACE, "--output", "json"])
    return list((json.loads(values) or {}).get("runNamespaces", []))


def prepare_namespaces(storage: Storage, namespaces: Sequence[str]) -> None:
    """The operator's namespace, those of the runs, and the storage Secret in each."""
    apply(
        [namespace_manifest(SYSTEM_NAMESPACE, "restricted")]
        + [namespace_manifest(name, "baseline") for name in namespaces]
        + [secret_manifest(name, storage) for name in (SYSTEM_NAMESPACE, *namespaces)]
    )


def namespace_manifest(name: str, level: str) -> dict[str, Any]:
    """A Namespace that enforces a level of pod security."""
    labels = {"pod-security.kubernetes.io/enforce": level}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def secret_manifest(namespace: str, storage: Storage) -> dict[str, Any]:
    """The Secret by which operator and gateway reach the bucket."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": STORAGE_SECRET, "namespace": namespace},
        "stringData": {
            "AWS_ACCESS_KEY_ID": storage.access_key,
            "AWS_SECRET_ACCESS_KEY": storage.secret_key,
        },
    }


def chart_values(target: Target, namespaces: Sequence[str]) -> dict[str, Any]:
    """The chart's values for this target, with the images that are built now."""
    images = built_images("core")
    return {
        "operator": {"image": target.image(images["operator"])},
        "runnerImage": target.image(images["runner"]),
        "sandboxdImage": target.image(images["sandboxd"]),
        "runNamespaces": list(namespaces),
        "storage": {
            "endpoint": target.storage.endpoint,
            "region": target.storage.region,
            "credentialsSecret": STORAGE_SECRET,
        },
        "network": {"clusterCIDRs": list(target.cluster_cidrs), "dns": {"cidrs": list(target.dns_cidrs)}},
    }


def built_images(*groups: str) -> dict[str, str]:
    """Images by short name, pinned by digest, as `python -m images` built them. Raises DemoError."""
    return {row["name"]: row["pinned"] for row in image_rows(*groups)}


def image_rows(*groups: str) -> list[dict[str, str]]:
    """What `python -m images list` says of the groups, once all of them are built. Raises DemoError."""
    rows: list[dict[str, str]] = json.loads(run_module("images", "list", *groups, "--json"))
    if missing := [row["name"] for row in rows if not row["pinned"]]:
        raise DemoError(f"not built as the checkout is now: {', '.join(missing)}", "make images")
    return rows


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return merged
