"""AgentVariants: compute the fingerprint and tell it in the status."""

import asyncio
import logging
from datetime import UTC, datetime

from assay.adapters.kube import KubeClient, KubeError, KubeRefused
from assay.api.agent_variant import AgentVariant, AgentVariantStatus, VariantCondition, VariantReason
from assay.api.conditions import with_condition
from assay.api.labels import PROVIDER_KEY
from assay.api.resource import status_patch
from assay.core.variants import fingerprint
from assay.handlers.resources import ResourceCache, status_path

log = logging.getLogger(__name__)

RETRY_SECONDS = 10.0


def variant_status(variant: AgentVariant, now: datetime) -> AgentVariantStatus:
    """The status to be written; equal to the present one where nothing changed."""
    conditions, _ = with_condition(
        variant.status.conditions,
        VariantCondition.ACCEPTED,
        True,
        VariantReason.FINGERPRINTED,
        _keys_note(variant),
        generation=variant.metadata.generation,
        now=now,
    )
    return AgentVariantStatus(
        observed_generation=variant.metadata.generation,
        conditions=conditions,
        fingerprint=fingerprint(variant.spec),
    )


def _keys_note(variant: AgentVariant) -> str:
    """What only the gateway can check: the operator reads no Secret."""
    references = [model.provider.secret_ref for model in variant.spec.models if model.provider.secret_ref]
    if not references:
        return ""
    names = ", ".join(sorted({one.name for one in references}))
    return f'the gateway sends keys only from Secrets labelled {PROVIDER_KEY}: "true"; named: {names}'


class VariantKeeper:
    """Keeps the status of every AgentVariant."""

    def __init__(self, client: KubeClient, cache: ResourceCache, namespaces: tuple[str, ...]) -> None:
        self._client, self._cache, self._namespaces = client, cache, namespaces
        self.wake = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.wake.clear()
            done = True
            for namespace in self._namespaces:
                for variant in self._cache.variants(namespace).values():
                    done &= await self._keep(variant)
            try:
                await asyncio.wait_for(self.wake.wait(), None if done else RETRY_SECONDS)
            except TimeoutError:
                continue

    async def _keep(self, variant: AgentVariant) -> bool:
        status = variant_status(variant, datetime.now(UTC))
        if status == variant.status:
            return True
        try:
            patch = {"status": status_patch(variant.status, status)}
            body = await self._client.merge(status_path(variant), patch)
        except KubeError as error:
            meta = variant.metadata
            log.warning("AgentVariant %s/%s: status not written: %s", meta.namespace, meta.name, error)
            return isinstance(error, KubeRefused) and error.status == 404
        self._cache.take("agentvariants", body)
        return True
