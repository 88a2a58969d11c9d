"""Pictures of a run's report and of one of its attempts, as `assay report` makes them."""

import asyncio
import os
import re
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path, PurePosixPath
from typing import Literal

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console

from assay.adapters.report_page import page_of_files
from assay.adapters.s3 import AsyncS3Store, S3Settings
from assay.adapters.try_evidence import S3Place, read_try
from assay.api.evaluation_run import EvaluationRun
from assay.core.report_html.attempt_page import TryFiles, attempt_page
from demo import target as targets
from demo.errors import DemoError
from demo.install import RUN_NAMESPACE
from demo.kube import RUNS, Kube
from localcluster import debian
from scripts.screenshots.browser import COMMAND
from scripts.screenshots.report_run import made_run

WIDTH, HEIGHT = 1280, 800
LARGEST = 64 << 20
#: Harbor writes a manifest.json of its own among the artefacts.
_OF_A_TRY = re.compile(r"(.*/try-\d+/[0-9a-f-]{36}/)manifest\.json")


def add_arguments(parser: ArgumentParser) -> None:
    """What can be chosen."""
    parser.add_argument("--run", help="name of an ended run; absent = one is made")
    parser.add_argument("--namespace", default=RUN_NAMESPACE, help="namespace of the run")
    parser.add_argument("--pages", type=Path, help="a folder with report.html and attempt.html instead")


def take(chosen: Namespace, folder: Path) -> None:
    """Save pictures of the report's first screen, light and dark, of the rest, and of an attempt's page."""
    debian.ensure(["tests"], Console(stderr=True))
    folder.mkdir(parents=True, exist_ok=True)
    if chosen.pages:
        save_pictures(chosen.pages, folder)
        return
    with tempfile.TemporaryDirectory() as scratch:
        fetch_pages(chosen.namespace, chosen.run, Path(scratch))
        save_pictures(Path(scratch), folder)


def fetch_pages(namespace: str, name: str | None, folder: Path) -> None:
    """Write the page of a run's stored report, and that of one of its attempts. Raises DemoError."""
    target = targets.choose()
    with Kube(target.kubeconfig) as kube:
        run = EvaluationRun.parse(kube.get(RUNS, namespace, name)) if name else made_run(target, kube)
    settings = S3Settings.from_env({**os.environ, **target.storage.environment()})
    asyncio.run(_fetch(run, settings, folder))


async def _fetch(run: EvaluationRun, settings: S3Settings, folder: Path) -> None:
    place = run.status.report
    if place is None:
        raise DemoError(f"run {run.metadata.name} has no report")
    store = AsyncS3Store(settings)
    try:
        beside = PurePosixPath(place.key).parent
        for name in ("report.json", "attempts.jsonl"):
            content = await store.get_bytes(place.bucket, str(beside / name), LARGEST)
            (folder / name).write_bytes(content)
        at = f"s3://{place.bucket}/{beside}"
        page = page_of_files(
            folder / "report.json",
            [folder / "attempts.jsonl"],
            f"{at}/report.json",
            [f"{at}/attempts.jsonl"],
        )
        (folder / "report.html").write_text(page)
        prefix = f"{run.status.evidence_prefix or ''}attempts/"
        keys = [one.key for one in await store.list_keys(place.bucket, prefix)]
        tries = [
            await read_try(S3Place(store, f"s3://{place.bucket}/{found[1]}"))
            for found in filter(None, map(_OF_A_TRY.fullmatch, sorted(keys)))
        ]
        (folder / "attempt.html").write_text(attempt_page(max(tries, key=_to_show)))
    finally:
        await store.close()


def _to_show(files: TryFiles) -> tuple[float, int]:
    """How much there is to see of a try: one that passed, with many calls."""
    result = files.manifest.result
    return (result.reward or 0.0) * bool(result.model_calls), result.model_calls or 0


def save_pictures(pages: Path, folder: Path) -> None:
    """Save the pictures of pages that are there."""
    with sync_playwright() as playwright:
        # No sandbox: it may run as root, and the only pages are our own.
        browser = playwright.chromium.launch(executable_path=debian.find(COMMAND), args=["--no-sandbox"])
        report, attempt = pages / "report.html", pages / "attempt.html"
        save_view(browser, report, folder / "report-light.png", "light")
        save_view(browser, report, folder / "report-dark.png", "dark")
        save_view(browser, report, folder / "report-evidence.png", "light", press="table.grid button.n")
        for section in ("price", "tasks", "vector", "integrity"):
            save_view(browser, report, folder / f"report-{section}.png", "light", part=f"#{section}")
        save_view(browser, attempt, folder / "attempt-light.png", "light")
        save_view(browser, attempt, folder / "attempt-trajectory.png", "dark", part="#trajectory")
        browser.close()


def save_view(
    browser: Browser,
    page: Path,
    picture: Path,
    scheme: Literal["light", "dark"],
    *,
    press: str = "",
    part: str = "",
) -> None:
    """Save the page's first screen, or one part of it, after pressing on what `press` finds last."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": WIDTH, "height": HEIGHT})
    tab = context.new_page()
    tab.goto(page.as_uri())
    if press:
        tab.locator(press).last.click()
    if part:
        # It lies over what is scrolled under it.
        tab.evaluate("document.querySelector('nav').remove()")
        tab.locator(part).screenshot(path=picture)
    else:
        tab.screenshot(path=picture)
    context.close()
