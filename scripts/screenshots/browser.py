"""Pages as pictures, by the machine's Chromium."""

from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console

from localcluster import debian

COMMAND = "chromium-headless-shell"


def save_picture(page: Path, picture: Path, width: int, height: int = 400) -> None:
    """The whole page, as long as it is; at least `height`."""
    if debian.find(COMMAND) is None:
        debian.ensure(["tests"], Console(stderr=True))
    with sync_playwright() as playwright:
        # No sandbox: it may run as root, and the only pages are our own.
        browser = playwright.chromium.launch(executable_path=debian.find(COMMAND), args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": width, "height": height})
        opened.goto(page.as_uri())
        picture.parent.mkdir(parents=True, exist_ok=True)
        opened.screenshot(path=picture, full_page=True)
        browser.close()
