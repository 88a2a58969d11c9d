"""A small client of the API server: any kind as plain dictionaries, and waiting by watching."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, cast
from urllib.parse import urlencode

import urllib3
from kubernetes import config

Object = dict[str, Any]

_GONE = 410
_WATCH_SECONDS = 60


class KubeError(Exception):
    """The API server refused a request; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"API server: {status}: {message}")
        self.status = status


class WaitTimeout(Exception):
    """What was awaited did not come true; the message says how the object looked last."""


@dataclass(frozen=True)
class Kind:
    """A kind as its path in the API: `group/version` (or `v1`) and the plural."""

    api: str
    plural: str

    def path(self, namespace: str | None, name: str | None = None) -> str:
        prefix = f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"
        middle = f"/namespaces/{namespace}" if namespace else ""
        return f"{prefix}{middle}/{self.plural}" + (f"/{name}" if name else "")


RUNS = Kind("assay.dev/v1alpha1", "evaluationruns")
LEDGERS = Kind("assay.dev/v1alpha1", "ledgers")
VARIANTS = Kind("assay.dev/v1alpha1", "agentvariants")
JOBS = Kind("batch/v1", "jobs")
PODS = Kind("v1", "pods")
NAMESPACES = Kind("v1", "namespaces")
SECRETS = Kind("v1", "secrets")
CONFIGMAPS = Kind("v1", "configmaps")
SERVICES = Kind("v1", "services")
EVENTS = Kind("v1", "events")
DEPLOYMENTS = Kind("apps/v1", "deployments")
NETWORK_POLICIES = Kind("networking.k8s.io/v1", "networkpolicies")
ENDPOINT_SLICES = Kind("discovery.k8s.io/v1", "endpointslices")


class Kube:
    """A connection with the rights of the current kubeconfig. Close it, or use it in a `with`."""

    def __init__(self, kubeconfig: str | None = None) -> None:
        # Any: the type stubs lack what is used here.
        self._client = cast(Any, config.new_client_from_config(config_file=kubeconfig))
        self._pool = self._client.rest_client.pool_manager

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._pool.clear()
        self._client.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Any:
        """The JSON answer. Raises KubeError for a status of 400 and above."""
        with self._open(method, path, query, body, content_type, timeout=60) as answer:
            text = answer.data.decode()
        if answer.status >= 400:
            raise KubeError(answer.status, _message(text))
        return json.loads(text) if text.startswith(("{", "[")) else text

    def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        return dict(self.request("GET", kind.path(namespace, name)))

    def find(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        """The object, or None where there is none."""
        try:
            return self.get(kind, namespace, name)
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    def items(self, kind: Kind, namespace: str | None, selector: str = "") -> list[Object]:
        query = {"labelSelector": selector} if selector else None
        return list(self.request("GET", kind.path(namespace), query=query)["items"])

    def create(self, kind: Kind, namespace: str | None, body: Object) -> Object:
        return dict(self.request("POST", kind.path(namespace), body=body))

    def patch(self, kind: Kind, namespace: str | None, name: str, body: Object) -> Object:
        """A JSON merge patch."""
        merge = "application/merge-patch+json"
        return dict(self.request("PATCH", kind.path(namespace, name), body=body, content_type=merge))

    def delete(
        self, kind: Kind, namespace: str | None, name: str, *, grace_seconds: int | None = None
    ) -> None:
        """Deletes in the background; an object that is gone already is no error."""
        body: Object = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            self.request("DELETE", kind.path(namespace, name), body=body)
        except KubeError as error:
            if error.status != 404:
                raise

    def wait(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        until: Callable[[Object], bool],
        *,
        what: str,
        seconds: float,
    ) -> Object:
        """The object as soon as `until` holds for it. Raises WaitTimeout, which says how it looked last."""
        last: Object | None = None
        for last in self.changes(kind, namespace, seconds=seconds, name=name):
            if last is not None and until(last):
                return last
        raise WaitTimeout(f"{what}: not within {seconds:.0f} s; {kind.plural}/{name} is {_summary(last)}")

    def wait_gone(self, kind: Kind, namespace: str | None, name: str, *, seconds: float) -> None:
        for found in self.changes(kind, namespace, seconds=seconds, name=name):
            if found is None:
                return
        raise WaitTimeout(f"{kind.plural}/{name} is still there after {seconds:.0f} s")

    def wait_any(
        self,
        kind: Kind,
        namespace: str | None,
        selector: str,
        until: Callable[[Object], bool],
        *,
        what: str,
        seconds: float,
    ) -> Object:
        """The first object of those that the label selector chooses for which `until` holds."""
        for found in self.changes(kind, namespace, seconds=seconds, selector=selector):
            if found is not None and until(found):
                return found
        raise WaitTimeout(f"{what}: not within {seconds:.0f} s")

    def changes(
        self, kind: Kind, namespace: str | None, *, seconds: float, name: str = "", selector: str = ""
    ) -> Iterator[Object | None]:
        """Every state of the chosen objects as it becomes known, for `seconds`; None where one is absent."""
        deadline = time.monotonic() + seconds
        query = {"fieldSelector": f"metadata.name={name}"} if name else {}
        if selector:
            query["labelSelector"] = selector
        while (left := deadline - time.monotonic()) > 0:
            listed = self.request("GET", kind.path(namespace), query=query)
            if name and not listed["items"]:
                yield None
            yield from listed["items"]
            version = listed["metadata"]["resourceVersion"]
            yield from self._watch(kind.path(namespace), query, version, min(left, _WATCH_SECONDS))

    def _watch(
        self, path: str, query: Mapping[str, str], version: str, seconds: float
    ) -> Iterator[Object | None]:
        whole = str(max(1, int(seconds)))
        watched = {**query, "watch": "1", "resourceVersion": version, "timeoutSeconds": whole}
        with self._open("GET", path, watched, None, "application/json", timeout=seconds + 30) as answer:
            if answer.status == _GONE:
                return
            if answer.status >= 400:
                raise KubeError(answer.status, _message(answer.data.decode()))
            for line in _lines(answer):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    # Mostly 410, an expired version: the caller lists anew.
                    return
                yield None if event["type"] == "DELETED" else event["object"]

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Any,
        content_type: str,
        *,
        timeout: float,
    ) -> "_Answer":
        headers = {"Accept": "application/json", "Content-Type": content_type}
        if token := self._client.configuration.auth_settings().get("BearerToken"):
            headers["Authorization"] = token["value"]
        url = self._client.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        sent = json.dumps(body).encode() if body is not None else None
        return _Answer(
            self._pool.request(
                method, url, headers=headers, body=sent, timeout=timeout, preload_content=False
            )
        )


class _Answer:
    """An answer that gives its connection back, or closes it when something is left unread."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self.status = response.status

    @property
    def data(self) -> bytes:
        return self._response.data

    def chunks(self) -> Iterator[bytes]:
        yield from self._response.stream(amt=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._response.release_conn()


def _lines(answer: _Answer) -> Iterator[bytes]:
    rest = b""
    for chunk in answer.chunks():
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line)


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, LookupError, TypeError):
        return text[:500]


def _summary(found: Object | None) -> str:
    if found is None:
        return "not there"
    return json.dumps(found.get("status", {}))[:2000]


def condition(found: Object, type_: str) -> Object | None:
    """The condition of that type in an object's status."""
    conditions = found.get("status", {}).get("conditions") or []
    return next((item for item in conditions if item["type"] == type_), None)


def has_condition(type_: str, status: str = "True", reason: str | None = None) -> Callable[[Object], bool]:
    """A predicate for `Kube.wait`."""

    def holds(found: Object) -> bool:
        current = condition(found, type_)
        return bool(current and current["status"] == status and reason in (None, current["reason"]))

    return holds
