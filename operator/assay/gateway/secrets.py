"""Provider keys, from the Secrets that the caller's own variant names."""

import base64
import binascii
import time
from collections.abc import Callable
from urllib.parse import quote

from assay.adapters.kube import KubeClient, KubeRefused
from assay.api.labels import PROVIDER_KEY
from assay.api.tryspec import SecretKeyRef
from assay.gateway.errors import Code, GatewayError


class ProviderKeys:
    """Reads one key of one Secret, and keeps it for some seconds so that a rotation takes effect soon."""

    def __init__(
        self,
        kube: KubeClient,
        namespace: str,
        keep_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube, self._namespace, self._keep, self._clock = kube, namespace, keep_seconds, clock
        self._known: dict[tuple[str, str], tuple[float, str]] = {}

    async def get(self, ref: SecretKeyRef) -> str:
        """The key's value. Raises GatewayError SecretMissing that names the Secret and the key."""
        place = (ref.name, ref.key)
        known = self._known.get(place)
        if known and known[0] > self._clock():
            return known[1]
        value = await self._read(ref)
        self._known[place] = (self._clock() + self._keep, value)
        return value

    async def _read(self, ref: SecretKeyRef) -> str:
        try:
            secret = await self._kube.get(f"/api/v1/namespaces/{self._namespace}/secrets/{quote(ref.name)}")
        except KubeRefused as error:
            if error.status == 404:
                raise self._missing(ref, "the Secret does not exist") from None
            if error.status == 403:
                raise self._missing(
                    ref, "the gateway may not get it: name it in the chart's values"
                ) from None
            raise
        if (secret.get("metadata", {}).get("labels") or {}).get(PROVIDER_KEY) != "true":
            # Whoever names a Secret in an AgentVariant also names where it is sent.
            command = f"kubectl -n {self._namespace} label --overwrite secret {ref.name} {PROVIDER_KEY}=true"
            why = f'the Secret lacks the label {PROVIDER_KEY}: "true", without which none is sent'
            raise self._missing(ref, f"{why}; if it is a provider's: {command}")
        encoded = (secret.get("data") or {}).get(ref.key)
        if encoded is None:
            raise self._missing(ref, "the Secret has no such key")
        return self._usable(ref, encoded)

    def _usable(self, ref: SecretKeyRef, encoded: str) -> str:
        try:
            # `kubectl create secret --from-file` keeps the file's last newline, which no header may carry.
            value = base64.b64decode(encoded).decode("ascii").strip()
        except (binascii.Error, UnicodeDecodeError):
            raise self._missing(ref, "its value is not ASCII text") from None
        if not value or not value.isprintable():
            raise self._missing(ref, "its value is empty or has control characters")
        return value

    def _missing(self, ref: SecretKeyRef, why: str) -> GatewayError:
        message = f"Secret {self._namespace}/{ref.name}, key {ref.key}: {why}"
        # 424 because no client library repeats it: a person has to act.
        return GatewayError(424, Code.SECRET_MISSING, message)
