"""Figures of one gateway process. No label names a run, a pod or a provider, so the series never grow."""

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

SECONDS = (0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 1200)


class Metrics:
    """Own registry: nothing global, so several gateways can live in one test process."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "assay_gateway_requests",
            "Requests by route and by code: our error code, or the class of the HTTP status.",
            ["route", "code"],
            registry=registry,
        )
        self.seconds = Histogram(
            "assay_gateway_request_seconds",
            "Wall seconds of a request, streams included.",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self.in_flight = Gauge("assay_gateway_requests_in_flight", "Requests under way.", registry=registry)
        self.evidence_bytes = Counter(
            "assay_gateway_evidence_bytes", "Bytes of evidence stored.", registry=registry
        )
        self.archive_bytes = Counter(
            "assay_gateway_archive_bytes", "Bytes of task archives served.", registry=registry
        )
        self.model_calls = Counter(
            "assay_gateway_model_calls",
            "Calls forwarded to providers, by the class of their answer: 2xx, 429, 5xx, unreachable, cut …",
            ["api", "answer"],
            registry=registry,
        )
        self.model_bytes = Counter(
            "assay_gateway_model_bytes", "Bytes exchanged with providers.", ["direction"], registry=registry
        )
        self.model_waiting = Gauge(
            "assay_gateway_model_calls_waiting", "Calls that wait for a free place.", registry=registry
        )

    async def scrape(self, _: web.Request) -> web.Response:
        """`GET /metrics`."""
        return web.Response(
            body=generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )


def status_class(status: int) -> str:
    """`2xx`, `4xx`, `5xx`; 429 by itself, because it asks for lower concurrency."""
    return "429" if status == 429 else f"{status // 100}xx"
