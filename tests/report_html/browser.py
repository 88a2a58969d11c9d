"""A real browser for pages of our own: it reports everything that a page must not do."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Page, sync_playwright
from rich.console import Console

from localcluster import debian

Scheme = Literal["light", "dark"]
COMMAND = "chromium-headless-shell"


@contextmanager
def browser() -> Iterator[Browser]:
    """The machine's Chromium; installed from Debian where it is missing."""
    if debian.find(COMMAND) is None:
        debian.ensure(["tests"], Console(stderr=True))
    with sync_playwright() as playwright:
        # No sandbox: tests run as root, and the only pages are our own.
        started = playwright.chromium.launch(executable_path=debian.find(COMMAND), args=["--no-sandbox"])
        yield started
        started.close()


@dataclass
class Opened:
    """An opened page and what it did. `requests` are those beside the page itself."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def dismissed(self, dialog: Dialog) -> None:
        """A script asked for attention; none of ours does."""
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def faults(self) -> list[tuple[Any, ...]]:
        """What axe-core finds, the serious and the critical: rule, and the first places."""
        found = Axe().run(self.page).response["violations"]
        return [
            (one["id"], one["help"], [node["html"][:200] for node in one["nodes"][:3]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]


@contextmanager
def opened(started: Browser, file: Path, scheme: Scheme = "light", width: int = 1280) -> Iterator[Opened]:
    """The file in a window of its own."""
    context = started.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    page = context.new_page()
    page.set_default_timeout(10_000)
    found = Opened(page)
    page.on("console", lambda message: found.errors.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: found.errors.append(str(error)))
    page.on("request", lambda request: found.requests.append(request.url))
    page.on("dialog", found.dismissed)
    page.goto(file.as_uri())
    found.requests.remove(file.as_uri())
    yield found
    context.close()
