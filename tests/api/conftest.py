"""A real API server that knows Assay's kinds, and a namespace that is gone after the tests."""

import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from assay.api.labels import GROUP, VERSION

ROOT = Path(__file__).resolve().parents[2]
PLURALS = ("ledgers", "agentvariants", "evaluationruns")
ESTABLISH_SECONDS = 60
_HOW = (
    "API tests need an API server: `python -m localcluster up --profile control-plane`, then "
    "`python -m localcluster shell --profile control-plane -- python -m pytest tests/api`"
)

Object = dict[str, Any]


class RefusedError(Exception):
    """The API server refused a write; the message is what a user reads."""


@dataclass(frozen=True)
class Api:
    """Assay's kinds in one namespace, as plain dictionaries."""

    objects: client.CustomObjectsApi
    namespace: str

    def create(self, plural: str, body: Object) -> Object:
        return self._call(self.objects.create_namespaced_custom_object, plural, body=body)

    def replace(self, plural: str, body: Object) -> Object:
        name = body["metadata"]["name"]
        return self._call(self.objects.replace_namespaced_custom_object, plural, name=name, body=body)

    def replace_status(self, plural: str, body: Object) -> Object:
        name = body["metadata"]["name"]
        return self._call(self.objects.replace_namespaced_custom_object_status, plural, name=name, body=body)

    def merge_status(self, plural: str, name: str, status: Object) -> Object:
        """As the operator writes: a JSON merge patch."""
        return self._call(
            self.objects.patch_namespaced_custom_object_status,
            plural,
            name=name,
            body={"status": status},
            _content_type="application/merge-patch+json",
        )

    def get(self, plural: str, name: str) -> Object:
        return self._call(self.objects.get_namespaced_custom_object, plural, name=name)

    def delete(self, plural: str, name: str) -> Object:
        return self._call(self.objects.delete_namespaced_custom_object, plural, name=name)

    def _call(self, method: Any, plural: str, **keywords: Any) -> Object:
        try:
            answer = method(group=GROUP, version=VERSION, namespace=self.namespace, plural=plural, **keywords)
        except ApiException as error:
            raise RefusedError(json.loads(error.body or "{}").get("message", str(error))) from None
        return cast(Object, answer)


def kubectl(*arguments: str, stdin: str | None = None) -> str:
    """Standard output of a kubectl command that must succeed."""
    done = subprocess.run(
        ["kubectl", *arguments], input=stdin, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="package")
def _connection() -> None:
    if not os.environ.get("KUBECONFIG"):
        pytest.fail(_HOW, pytrace=False)
    config.load_kube_config()


@pytest.fixture(scope="package")
def _kinds(_connection: None) -> Iterator[None]:
    """The CRDs of the checkout. Those that the chart installed are updated and stay; ours are removed."""
    names = [f"{plural}.{GROUP}" for plural in PLURALS]
    before = {found.partition("/")[2] for found in kubectl("get", "crd", "-o", "name").split()}
    kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=assay-tests", "-f", "crds")
    yield
    if ours := sorted(set(names) - before):
        # Whoever installs the chart next must not meet kinds that are still going away.
        kubectl("delete", "crd", "--ignore-not-found", "--timeout=120s", *ours)


@pytest.fixture(scope="package")
def api(_kinds: None) -> Iterator[Api]:
    core = client.CoreV1Api()
    name = f"api-tests-{uuid.uuid4().hex[:8]}"
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    made = Api(client.CustomObjectsApi(), name)
    _await_served(made)
    yield made
    core.delete_namespace(name)


def _await_served(api: Api) -> None:
    """A CRD is served some time after it was accepted, and by every handler only a moment later."""
    deadline = time.monotonic() + ESTABLISH_SECONDS
    while True:
        try:
            for plural in PLURALS:
                api.objects.list_namespaced_custom_object(GROUP, VERSION, api.namespace, plural)
            return
        except ApiException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def merged(base: Mapping[str, Any], *path: str | int, value: Any) -> Object:
    """A deep copy of `base` with the field at `path` set to `value`; None removes it."""
    copy: Object = json.loads(json.dumps(base))
    place: Any = copy
    for step in path[:-1]:
        place = place.setdefault(step, {}) if isinstance(place, dict) else place[step]
    if value is None:
        place.pop(path[-1], None)
    else:
        place[path[-1]] = value
    return copy
