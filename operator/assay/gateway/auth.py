"""Who is calling: a projected token, judged by the API server, bound to a pod that says what it may.

The caller chooses nothing: its try spec is read from the pod that TokenReview names.
"""

import asyncio
import base64
import binascii
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from weakref import WeakValueDictionary

from pydantic import ValidationError

from assay.adapters.kube import JSON, KubeClient, KubeRefused
from assay.api.base import first_problem, written_by_newer
from assay.api.labels import ATTEMPT_SERVICE_ACCOUNT, GATEWAY_AUDIENCE, ROLE, ROLE_ATTEMPT, TRY_SPEC
from assay.api.tryspec import TrySpec
from assay.core.names import try_prefix
from assay.gateway.errors import Code, GatewayError, outdated

TOKEN_BYTES = 4096
VERDICTS = 10_000
REVIEWS_AT_A_TIME = 16
REVIEWS_OF_ONE_ADDRESS = 2


@dataclass(frozen=True, slots=True)
class Caller:
    """An attempt pod that proved who it is, and the try that it runs."""

    pod_name: str
    pod_uid: str
    spec: TrySpec

    @property
    def bucket(self) -> str:
        """The bucket of its run."""
        return self.spec.storage.bucket

    @property
    def prefix(self) -> str:
        """Key prefix of all that it may write, ending in a slash."""
        return try_prefix(self.spec.storage, self.spec.identity, self.pod_uid)


@dataclass(frozen=True, slots=True)
class _Reviewed:
    """What TokenReview says of a token that is valid."""

    username: str
    pod_name: str | None
    pod_uid: str | None


class Authenticator:
    """Judges tokens, and remembers a good verdict for some seconds, never beyond the token's own end."""

    def __init__(
        self,
        kube: KubeClient,
        namespace: str,
        verdict_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kube, self._namespace = kube, namespace
        self._seconds, self._clock = verdict_seconds, clock
        self._verdicts: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()
        self._pending: dict[bytes, asyncio.Task[Caller]] = {}
        # The agent shares the runner's network and may send any token at any rate. It must neither flood the
        # API server nor keep the runners of other pods waiting.
        self._reviews = asyncio.Semaphore(REVIEWS_AT_A_TIME)
        self._addresses: WeakValueDictionary[str | None, asyncio.Semaphore] = WeakValueDictionary()

    async def caller(self, authorization: str | None, address: str | None) -> Caller:
        """The caller whose `Authorization` header came from `address`. Raises GatewayError or KubeError."""
        token = _bearer(authorization)
        key = hashlib.sha256(token.encode()).digest()
        known = self._verdicts.get(key)
        if known and known[0] > self._clock():
            return known[1]
        task = self._pending.get(key)
        if task is None:
            task = asyncio.create_task(self._judge(token, key, address))
            self._pending[key] = task
            task.add_done_callback(lambda done: self._forget(key, done))
        # Shielded: several requests may wait for this one judgement, and one of them may go away.
        return await asyncio.shield(task)

    def _forget(self, key: bytes, done: "asyncio.Task[Caller]") -> None:
        del self._pending[key]
        if not done.cancelled():
            done.exception()

    async def _judge(self, token: str, key: bytes, address: str | None) -> Caller:
        own = self._addresses.setdefault(address, asyncio.Semaphore(REVIEWS_OF_ONE_ADDRESS))
        async with own, self._reviews:
            reviewed = await self._review(token)
            if reviewed is None:
                raise _unauthenticated(
                    "the token is not valid for this gateway: expired, revoked, its pod is gone, "
                    f"or its audience is not {GATEWAY_AUDIENCE}"
                )
            expected = f"system:serviceaccount:{self._namespace}:{ATTEMPT_SERVICE_ACCOUNT}"
            if reviewed.username != expected:
                raise _forbidden(f"{reviewed.username} may not use this gateway; only {expected} may")
            if not reviewed.pod_name or not reviewed.pod_uid:
                raise _forbidden("the token is not bound to a pod")
            pod = await self._pod(reviewed.pod_name)
        caller = _caller_from(pod, reviewed.pod_uid, self._namespace)
        self._remember(key, caller, token)
        return caller

    async def _review(self, token: str) -> _Reviewed | None:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [GATEWAY_AUDIENCE]},
        }
        answer = await self._kube.create("/apis/authentication.k8s.io/v1/tokenreviews", body)
        status = answer.get("status", {})
        # An authenticator that knows nothing of audiences leaves them out; such a token proves nothing here.
        if not status.get("authenticated") or GATEWAY_AUDIENCE not in status.get("audiences", []):
            return None
        user = status.get("user", {})
        extra = user.get("extra") or {}
        return _Reviewed(
            username=user.get("username", ""),
            pod_name=_only(extra.get("authentication.kubernetes.io/pod-name")),
            pod_uid=_only(extra.get("authentication.kubernetes.io/pod-uid")),
        )

    async def _pod(self, name: str) -> JSON:
        try:
            return await self._kube.get(f"/api/v1/namespaces/{self._namespace}/pods/{quote(name)}")
        except KubeRefused as error:
            if error.status == 404:
                raise _unauthenticated(f"pod {name} is gone") from None
            raise

    def _remember(self, key: bytes, caller: Caller, token: str) -> None:
        until = min(self._clock() + self._seconds, _expiry(token))
        self._verdicts[key] = (until, caller)
        self._verdicts.move_to_end(key)
        while len(self._verdicts) > VERDICTS:
            self._verdicts.popitem(last=False)


def _bearer(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise _unauthenticated("send the projected service account token as `Authorization: Bearer …`")
    if len(token) > TOKEN_BYTES or token.count(".") != 2 or not token.isascii():
        raise _unauthenticated("the bearer token is no service account token")
    return token


def _caller_from(pod: JSON, uid: str, namespace: str) -> Caller:
    metadata = pod.get("metadata", {})
    name = metadata.get("name", "")
    if metadata.get("uid") != uid:
        raise _forbidden(f"the token belongs to an earlier pod {name}")
    if (metadata.get("labels") or {}).get(ROLE) != ROLE_ATTEMPT:
        raise _forbidden(f"pod {name} is no attempt: its label {ROLE} is not {ROLE_ATTEMPT}")
    text = (metadata.get("annotations") or {}).get(TRY_SPEC)
    if text is None:
        raise _forbidden(f"pod {name} lacks the annotation {TRY_SPEC}")
    try:
        spec = TrySpec.read_leniently(text)
    except ValidationError as error:
        what = f"annotation {TRY_SPEC} of pod {name}"
        if written_by_newer(error):
            raise outdated(what, error) from None
        raise _forbidden(f"{what}: {first_problem(error)}") from None
    if spec.identity.namespace != namespace:
        raise _forbidden(f"the try of pod {name} belongs to namespace {spec.identity.namespace}")
    return Caller(pod_name=name, pod_uid=uid, spec=spec)


def _only(values: Any) -> str | None:
    return str(values[0]) if isinstance(values, list) and len(values) == 1 else None


def _expiry(token: str) -> float:
    """When the token ends, in seconds since 1970. Called only for tokens that TokenReview accepted."""
    payload = token.split(".")[1]
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (binascii.Error, ValueError, KeyError, TypeError):
        return 0.0


def _unauthenticated(message: str) -> GatewayError:
    return GatewayError(401, Code.UNAUTHENTICATED, message)


def _forbidden(message: str) -> GatewayError:
    return GatewayError(403, Code.FORBIDDEN, message)
