"""kopf's part: it watches our three kinds and hands each event to the cache. It writes nothing."""

from typing import Any

import kopf

from assay.adapters.kube_config import KubeConfig
from assay.api.labels import GROUP, VERSION
from assay.handlers.resources import KINDS, ResourceCache

PREFIX = GROUP


def configure(settings: kopf.OperatorSettings) -> None:
    """Names and limits of kopf. The names never change: with others every object would look unhandled."""
    settings.persistence.finalizer = f"{PREFIX}/operator"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=f"progress.{PREFIX}")
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(
        prefix=PREFIX, key="last-handled-configuration"
    )
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.networking.request_timeout = 30
    settings.watching.inactivity_timeout = 100


def make_registry(cache: ResourceCache, config: KubeConfig) -> kopf.OperatorRegistry:
    """Handlers for the three kinds, in a registry of their own."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return connection(config)

    for plural in KINDS:
        _register(registry, cache, plural)
    return registry


def connection(config: KubeConfig) -> kopf.ConnectionInfo:
    """The same way to the API server as ours."""
    return kopf.ConnectionInfo(
        server=config.server,
        ca_data=config.ca_data.encode() if config.ca_data else None,
        token=config.bearer(),
        certificate_data=config.certificate_data.encode() if config.certificate_data else None,
        private_key_data=config.key_data.encode() if config.key_data else None,
        default_namespace=config.namespace,
    )


def _register(registry: kopf.OperatorRegistry, cache: ResourceCache, plural: str) -> None:
    @kopf.on.event(GROUP, VERSION, plural, registry=registry, id=f"see-{plural}")
    async def see(event: Any, **_: Any) -> None:
        cache.take(plural, event["object"], deleted=event["type"] == "DELETED")
