from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.report_html.browser import browser
from tests.report_html.samples import Sample, sample


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One browser. While it lives its event loop runs in this thread, so no test of this folder is async."""
    with browser() as started:
        yield started


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """A report with everything in it."""
    return sample(tmp_path_factory.mktemp("run"))
