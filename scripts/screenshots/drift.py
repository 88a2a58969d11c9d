"""Picture of the first screen of a report whose baseline drifted.

tests/api_operator/test_drift.py makes such a run with a real operator and leaves its page behind:

    scripts/test tests/api_operator/test_drift.py --basetemp=/tmp/drift
    python -m scripts.screenshots drift --page /tmp/drift/*/tuesday.html
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from playwright.sync_api import sync_playwright

from localcluster import debian
from scripts.screenshots.browser import COMMAND
from scripts.screenshots.report import save_view


def add_arguments(parser: ArgumentParser) -> None:
    """What can be chosen."""
    parser.add_argument("--page", type=Path, required=True, help="HTML report of a run that drifted")


def take(chosen: Namespace, folder: Path) -> None:
    """Save the picture."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=debian.find(COMMAND), args=["--no-sandbox"])
        save_view(browser, chosen.page.resolve(), folder / "report-drift.png", "light")
        browser.close()
