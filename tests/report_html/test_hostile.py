"""What agents, tasks and models write is text: it cannot run, hide, reorder or break the page."""

import base64
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from pydantic import ValidationError

from tests.report_html.browser import Opened, opened
from tests.report_html.evidence import TRAJECTORY, agent_step, trajectory, write_try
from tests.report_html.samples import attempt, written
from tests.report_html.test_attempt_page import page_of

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>\"'--><!--"
ESCAPES = "\x1b[31mred\x1b[0m\x07\x9b2J"
BIDI = "user\u202e\u2066 // admin\u2069 \u200f\u061c"
TEMPLATE = "{{ 7 * 7 }} {% raw %}"
HOSTILE = f"{MARKUP} {ESCAPES} {BIDI} {TEMPLATE}"
INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u061c\ufeff]")
REWARD = "'><b>bold</b>"


def unharmed(found: Opened) -> None:
    """Nothing ran, nothing was asked for, nothing invisible came through, and the page's own script works."""
    assert found.errors == []
    assert found.requests == []
    assert found.dialogs == []
    assert found.page.locator("main img, main script, svg[onload], body [onerror]").count() == 0
    shown = found.page.locator("html").text_content() or ""
    assert INVISIBLE.search(shown.replace("\r", "")) is None
    assert "7 * 7" in shown


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report in which every text that comes from outside is hostile."""
    variants = {"baseline": 0.0, f"candidate {HOSTILE}": 1.0}
    records = [
        attempt(
            f"task-{number}",
            variant,
            0,
            bool(rate),
            reason=f"{HOSTILE}{'x' * 800}"[:1000],
            flags=[HOSTILE],
            models=[HOSTILE[:200]],
            images={HOSTILE: HOSTILE},
            harness={"agent": HOSTILE[:200], "agent_version": BIDI, "harbor": "0.26.0"},
            resources=None,
            ledger_digest=None,
            run=HOSTILE,
        )
        for variant, rate in variants.items()
        for number in range(8)
    ]
    folder = tmp_path_factory.mktemp("hostile")
    return written(folder, records, baseline="baseline").page


@pytest.mark.parametrize("name", [f"task {MARKUP}", ESCAPES, f"t{BIDI}"])
def test_a_task_with_such_a_name_is_refused_by_ledgers_and_records(name: str) -> None:
    with pytest.raises(ValidationError, match="task"):
        attempt(name, "candidate", 0, True)


def test_a_hostile_report_is_only_text(chromium: Browser, hostile_report: Path) -> None:
    with opened(chromium, hostile_report) as found:
        unharmed(found)
        assert found.faults() == []
        assert "<script>alert(1)</script>" in found.page.locator("h1").inner_text()
        assert "\\u202e" in found.page.locator("h1").inner_text()


def test_neither_is_what_its_script_shows(chromium: Browser, hostile_report: Path) -> None:
    with opened(chromium, hostile_report) as found:
        found.page.locator("table.grid button.n").last.click()
        dialog = found.page.locator("dialog[open]")
        assert "<script>alert(1)</script>" in dialog.inner_text()
        assert "\\u001b[31mred" in dialog.inner_text()
        found.page.locator("#evidence-close").click()
        found.page.locator("#tries-variant").select_option(index=1)
        found.page.locator("#tries-table th button").first.click()
        assert found.page.locator("#tries-table tbody tr").count() == 8
        unharmed(found)


def test_the_policy_allows_the_pages_own_script_alone(chromium: Browser, hostile_report: Path) -> None:
    with opened(chromium, hostile_report) as found:
        found.page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {text: 'alert(9)'}))"
        )
        found.page.evaluate(
            "document.body.append(Object.assign(new Image(), {src: 'https://example.invalid/x'}))"
        )
        found.page.wait_for_function("document.querySelector('body > img').complete")
        assert found.dialogs == []
        assert len([one for one in found.errors if "Content Security Policy" in one]) == 2


def test_a_hostile_attempt_is_only_text(chromium: Browser, tmp_path: Path) -> None:
    step = agent_step(HOSTILE, HOSTILE, HOSTILE)
    files = {
        TRAJECTORY: trajectory({"source": HOSTILE, "message": HOSTILE, "reasoning_content": HOSTILE}, step),
        f"trial/verifier/{MARKUP.replace('/', '')[:60]}.txt": HOSTILE.encode(),
        "trial/verifier/binary.txt": bytes(range(256)) * 50,
        "runner.log": HOSTILE.encode(),
    }
    place = write_try(tmp_path, files, instruction=HOSTILE, reason=HOSTILE, rewards={REWARD: 1.0})
    with opened(chromium, page_of(place)) as found:
        unharmed(found)
        assert found.faults() == []
        assert found.page.locator("article.step").count() == 2
        assert "<b>bold</b>" in found.page.locator("#result").inner_text()


def test_lines_of_ten_megabytes_are_cut_with_a_note(chromium: Browser, tmp_path: Path) -> None:
    line = "A" * 10_000_000
    files = {
        TRAJECTORY: trajectory(agent_step(line, line, line)),
        "trial/verifier/test-stdout.txt": f"first\n{line}\nlast line\n".encode(),
        "trial/verifier/one-line.txt": base64.b64encode(bytes(7_500_000)),
    }
    page = page_of(write_try(tmp_path, files, instruction=line))
    assert page.stat().st_size < 500_000
    with opened(chromium, page) as found:
        assert found.errors == []
        assert found.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        words = found.page.locator("body").text_content() or ""
        assert "of 10,000,000 characters in the middle are left out" in words
        assert "only the beginning and the end of 10,000,017 bytes are shown" in words
        assert "last line" in words


def test_a_link_out_of_the_evidence_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("do not show")
    place = write_try(tmp_path / "bucket", {"trial/verifier/link.txt": b"do not show"})
    (place / "trial/verifier/link.txt").unlink()
    (place / "trial/verifier/link.txt").symlink_to(secret)
    text = page_of(place).read_text()
    assert "do not show" not in text
    assert "link.txt is listed by the manifest and is not there" in text


def test_names_that_fill_the_field_do_not_break_the_page(chromium: Browser, tmp_path: Path) -> None:
    variants = {"b" * 253: 0.0, "c" * 253: 1.0}
    records = [
        attempt("t" * 250, variant, 0, bool(rate), ledger_digest=None) for variant, rate in variants.items()
    ]
    with opened(chromium, written(tmp_path, records, baseline="b" * 253).page) as found:
        assert found.errors == []
        assert found.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
