"""Pictures of the dashboards, from the data of a real Prometheus."""

import tempfile
import time
from argparse import ArgumentParser, Namespace
from itertools import groupby
from pathlib import Path

from demo import target as targets
from demo.install import RUN_NAMESPACE, install, served_namespaces
from demo.kube import Kube
from scripts.dashboards.observed_run import observed_run
from scripts.dashboards.page import WIDTH, render_page
from scripts.dashboards.prometheus import Prometheus
from scripts.dashboards.questions import View, panels
from scripts.screenshots.browser import save_picture

TITLES = {
    "compare": "Assay / Compare variants",
    "operator": "Assay / Operator health",
    "run": "Assay / Run",
}


def add_arguments(parser: ArgumentParser) -> None:
    """What can be chosen."""
    parser.add_argument("--prometheus", help="address of one that scrapes Assay; absent = one of its own")
    parser.add_argument("--namespace", default=RUN_NAMESPACE, help="namespace of the run")
    parser.add_argument("--run", help="the run to show, with --prometheus")
    parser.add_argument("--minutes", type=float, default=60, help="how far back, with --prometheus")
    parser.add_argument("--repetitions", type=int, default=1, help="of the run that is made otherwise")


def take(chosen: Namespace, folder: Path) -> None:
    """Save a picture of each dashboard. Without --prometheus a run is made on the cluster and scraped."""
    if chosen.prometheus:
        now = time.time()
        view = View(chosen.namespace, chosen.run, now - chosen.minutes * 60, now)
        save_dashboards(Prometheus(chosen.prometheus.rstrip("/")), view, folder)
        return
    target = targets.choose()
    install(target, sorted({RUN_NAMESPACE, *served_namespaces()}))
    with (
        tempfile.TemporaryDirectory() as scratch,
        Kube(target.kubeconfig) as kube,
        observed_run(target, kube, Path(scratch), chosen.repetitions) as found,
    ):
        save_dashboards(found.prometheus, found.view, folder)


def save_dashboards(prometheus: Prometheus, view: View, folder: Path) -> None:
    """Save a picture of each dashboard."""
    for name, shown in groupby(panels(), key=lambda one: one.dashboard):
        with tempfile.TemporaryDirectory() as scratch:
            page = Path(scratch) / f"{name}.html"
            page.write_text(render_page(TITLES[name], shown, prometheus, view))
            save_picture(page, folder / f"dashboard-{name}.png", WIDTH)
