"""Health and metrics over HTTP."""

from collections.abc import Callable

from aiohttp import web

from assay.adapters.metrics import CONTENT_TYPE, OperatorMetrics
from assay.handlers.supervisor import Supervisor


async def serve(
    listen: str, health_port: int, metrics_port: int, supervisor: Supervisor, metrics: OperatorMetrics
) -> list[web.AppRunner]:
    """Serve `/healthz` and `/metrics`, each on its port. Clean up the runners at the end."""
    return [
        await _serve(listen, health_port, "/healthz", _health(supervisor)),
        await _serve(listen, metrics_port, "/metrics", _metrics(supervisor, metrics)),
    ]


Handler = Callable[[web.Request], "web.Response"]


def _health(supervisor: Supervisor) -> Handler:
    def answer(_: web.Request) -> web.Response:
        reason = supervisor.unhealthy()
        return web.Response(text=reason or "ok", status=503 if reason else 200)

    return answer


def _metrics(supervisor: Supervisor, metrics: OperatorMetrics) -> Handler:
    def answer(_: web.Request) -> web.Response:
        supervisor.measure()
        return web.Response(body=metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    return answer


async def _serve(listen: str, port: int, path: str, handler: Handler) -> web.AppRunner:
    async def handle(request: web.Request) -> web.Response:
        return handler(request)

    app = web.Application()
    app.router.add_get(path, handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, listen, port).start()
    return runner
