"""The bytes of a ledger file, from where its Ledger resource says that they are."""

from assay.adapters.kube import KubeClient, KubeRefused
from assay.adapters.s3 import AsyncS3Store
from assay.api.ledger_resource import Ledger
from assay.core.ledger import MAX_LEDGER_BYTES


async def ledger_bytes(client: KubeClient, store: AsyncS3Store, ledger: Ledger) -> bytes:
    """The bytes, not verified. Raises StorageErrors and KubeErrors; KubeRefused where a key is not there."""
    source = ledger.spec.source
    if source.s3 is not None:
        return await store.get_bytes(source.s3.bucket, source.s3.key, MAX_LEDGER_BYTES)
    assert source.config_map is not None  # the API server admits exactly one source
    named = source.config_map
    return await config_map_bytes(client, ledger.metadata.namespace, named.name, named.key)


async def config_map_bytes(client: KubeClient, namespace: str, name: str, key: str) -> bytes:
    """The value of a key of a ConfigMap's data. Raises KubeError, for a missing key too."""
    found = await client.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    text = (found.get("data") or {}).get(key)
    if text is None:
        words = f"ConfigMap {name} in namespace {namespace} has no key {key} in its data"
        raise KubeRefused(404, "NotFound", words)
    return str(text).encode()
