"""How large the HTML report of 10,000 attempts is, how long it takes to make, and how long to open.

    python -m benchmarks.report_html [--attempts 10000] [--keep FILE]

A suite of three ledgers with random pod names and digests, which do not compress. `assay report` makes the
page from report.json and attempts.jsonl in a process of its own; the machine's Chromium opens it. Bars:
5 MB, 10 s, 3 s. Both are seconds of the processor, so other work on the machine does not count: of the whole
command, and of the page's main thread until the load event is over and the list of all tries has answered a
filter. The best of three openings by the clock is printed beside it.
"""

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from datetime import date
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console

from assay.adapters.list_prices import build_price_sheet
from assay.adapters.score_files import stream_records
from assay.api.report import CodeVersion
from assay.api.suite import SuiteDefinition
from assay.core.collection import Collection
from assay.core.prices import Prices
from assay.core.report import make_report
from assay.core.score_input import ScoreInput, match_components, scored_ledgers
from benchmarks.report_speed import attempt_lines
from benchmarks.report_speed_ledgers import MODEL, SUITE, TASKS, ledgers
from localcluster import debian

MAX_BYTES, MAX_MADE_SECONDS, MAX_OPEN_SECONDS = 5_000_000, 10.0, 3.0
REPETITIONS, CALLS = 3, 2
OPENED = 3
BROWSER = "chromium-headless-shell"


def write_files(folder: Path, attempts: int) -> int:
    """Write report.json and attempts.jsonl; answers how many attempts there are."""
    files = ledgers(REPETITIONS)
    variants = round(attempts / (REPETITIONS * sum(TASKS.values())))
    seeded = random.Random(1)
    with (folder / "attempts.jsonl").open("w") as output:
        for line in attempt_lines(files, variants, CALLS):
            document = json.loads(line)
            document["podUid"] = str(uuid.UUID(int=seeded.getrandbits(128), version=4))
            document["manifestDigest"] = f"sha256:{seeded.getrandbits(256):064x}"
            output.write(json.dumps(document) + "\n")
    prices = Prices(build_price_sheet([MODEL], date(2026, 11, 30)))
    collection = Collection(prices, {file.digest: frozenset(file.by_id) for file in files.values()})
    collection.add_all(stream_records([folder / "attempts.jsonl"]))
    scored = scored_ledgers(collection, files.values(), [])
    suite = SuiteDefinition.model_validate(SUITE)
    given = ScoreInput(collection, scored, {}, suite, match_components(suite, scored), "baseline")
    report = make_report(given, CodeVersion(assay="benchmark", commit=None))
    (folder / "report.json").write_text(report.model_dump_json(by_alias=True))
    return report.records


def make(folder: Path) -> float:
    """Seconds of the processor that `assay report` takes, its start included."""
    command = (str(Path(sys.executable).with_name("assay")), "report", str(folder))
    subprocess.run([*command, "--html", str(folder / "report.html")], check=True, capture_output=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def open_in_browser(page: Path) -> tuple[float, float]:
    """Least seconds until the page is loaded and has answered: of the processor, and of the clock."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=debian.find(BROWSER), args=["--no-sandbox"])
        seconds = [_open_once(browser, page) for _ in range(OPENED)]
        browser.close()
        return min(one for one, _ in seconds), min(one for _, one in seconds)


def _open_once(browser: Browser, page: Path) -> tuple[float, float]:
    context = browser.new_context()
    tab = context.new_page()
    tab.goto("about:blank")
    tools = context.new_cdp_session(tab)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    began = time.perf_counter()
    tab.goto(page.as_uri(), wait_until="load")
    tab.locator("#tries-retained").check()
    tab.wait_for_function("document.querySelector('#tries-count').textContent.includes(' of ')")
    seconds = time.perf_counter() - began
    metrics = {one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]}
    context.close()
    return float(metrics["TaskDuration"]), seconds


def main() -> int:
    """Measures; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, help="copy the page there")
    given = parser.parse_args()
    debian.ensure(["tests"], Console(stderr=True))
    with tempfile.TemporaryDirectory(prefix="assay-report-html-") as name:
        folder = Path(name)
        attempts = write_files(folder, given.attempts)
        made = make(folder)
        page = folder / "report.html"
        size = page.stat().st_size
        opened, by_clock = open_in_browser(page)
        if given.keep:
            shutil.copy(page, given.keep)
    print(
        f"{attempts:,} attempts: {size / 1e6:.2f} MB, made in {made:.1f} s, opened in {opened:.2f} s "
        f"({by_clock:.2f} s by the clock)"
    )
    good = size <= MAX_BYTES and made <= MAX_MADE_SECONDS and opened <= MAX_OPEN_SECONDS
    print("within the bars" if good else "BARS MISSED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
