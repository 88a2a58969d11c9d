"""The report as a reader meets it: in a real browser, from a file, without a network."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from assay.adapters.report_page import page_of_files
from assay.api.ledger_history import DriftReference, EarlierRun
from assay.core.canonical import digest_of_bytes
from tests.report_html.browser import Scheme, opened
from tests.report_html.samples import EVIDENCE, RATES, TASKS, Sample, sample, written
from tests.unit.report import suites
from tests.unit.report.samples import ledger_file, run_record

OVERLAPPING = """svg => {
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim())
        .map(t => [t.textContent, t.getBoundingClientRect()]);
    const cut = boxes.filter(([, b]) => b.left < frame.left - 1 || b.right > frame.right + 1
        || b.top < frame.top - 1 || b.bottom > frame.bottom + 1).map(([t]) => t);
    const over = boxes.flatMap(([t, a], i) => boxes.slice(i + 1)
        .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1)
        .filter(([, b]) => a.top < b.bottom - 2 && b.top < a.bottom - 2)
        .map(([u]) => `${t} / ${u}`));
    return [...cut, ...over];
}"""
"""Texts of a chart that leave it or that cover one another."""


def value_at(document: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        document = document[int(name)] if isinstance(document, list) else document[name]
    return document


def texts(page: Page, selector: str) -> list[str]:
    return page.locator(selector).all_inner_texts()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_without_errors_requests_or_barriers(chromium: Browser, run: Sample, scheme: Scheme) -> None:
    with opened(chromium, run.page, scheme) as found:
        assert found.errors == []
        assert found.requests == []
        assert found.faults() == []


def test_the_dialog_and_a_narrow_window_have_no_barriers_either(chromium: Browser, run: Sample) -> None:
    with opened(chromium, run.page, "dark", width=420) as found:
        found.page.locator("#scoreboard-ledger button.n").first.click()
        assert found.faults() == []
        assert found.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_it_begins_with_the_verdict_and_then_answers(chromium: Browser, run: Sample) -> None:
    assert run.report.reasons_against
    with opened(chromium, run.page) as found:
        words = found.page.locator("body").inner_text()
        assert words.index("NOT PUBLISHABLE") < words.index(run.report.reasons_against[0])
        assert words.index(run.report.reasons_against[0]) < words.index("candidate is better than baseline")
        shift = next(row.shift for row in run.report.vector if row.variant == "candidate")
        assert shift is not None
        assert shift.shift is not None
        assert texts(found.page, "h1") == [
            f"candidate is better than baseline by {100 * shift.shift:.1f} points"
        ]
        assert "More than noise" in found.page.locator(".lead").first.inner_text()
        found.page.locator(".verdict summary").click()
        for reason in run.report.reasons_against:
            assert found.page.get_by_text(reason, exact=True).is_visible()


def test_the_answer_is_on_the_first_screen(chromium: Browser, run: Sample) -> None:
    with opened(chromium, run.page) as found:
        for selector in ("h1", ".lead", "#scoreboard-ledger tbody tr:last-child", "#answer figure"):
            box = found.page.locator(selector).first.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= 800, selector


def test_every_number_equals_report_json(chromium: Browser, run: Sample) -> None:
    document = json.loads((run.folder / "report.json").read_text())
    with opened(chromium, run.page) as found:
        cells = found.page.evaluate(
            "[...document.querySelectorAll('[data-p]')]"
            ".map(b => [b.dataset.p, b.parentElement.dataset.v, b.textContent])"
        )
    assert len(cells) > 150
    shown = {}
    for pointer, value, text in cells:
        expected = value_at(document, pointer)
        if isinstance(expected, int | float):
            assert float(value) == pytest.approx(expected, abs=0), pointer
        elif isinstance(expected, str) and value is not None:
            assert float(value) == float(expected), pointer
        shown[pointer] = text
    for place, row in enumerate(document["vector"]):
        half = row["sampling"]["interval"]["halfWidth"]
        assert (
            shown[f"/vector/{place}/score/strict"]
            == f"{100 * row['score']['strict']:.1f} ± {100 * half:.1f} %"
        )
        cost = float(row["usage"]["costUsd"]["mean"])
        assert re.match(r"\$([\d.]+) ", shown[f"/vector/{place}/usage/costUsd/mean"])[1] == f"{cost:.4f}"  # type: ignore[index]
        input_tokens = row["usage"]["tokens"]["input"]["mean"]
        assert shown[f"/vector/{place}/usage/tokens/input/mean"].replace(",", "") == f"{input_tokens:.0f}"
        for task, rewards in row["taskRewards"].items():
            assert shown[f"/vector/{place}/taskRewards/{task}"].strip() == f"{sum(rewards):.0f}/3"


def test_a_cell_of_the_grid_leads_to_address_and_digest(chromium: Browser, run: Sample) -> None:
    one = next(record for record in run.records if record.task == "task-03" and record.variant == "candidate")
    with opened(chromium, run.page) as found:
        row = found.page.locator("#grid-ledger tbody tr", has_text="task-03")
        row.locator("button.n").nth(1).click()
        words = found.page.locator("dialog[open]").inner_text()
        assert str(one.manifest_digest) in words
        assert f"{EVIDENCE}attempts/ledger/task-03/candidate/r0/try-1/{one.pod_uid}/" in words
        assert words.count("try 1") == 3


def test_a_number_leads_to_its_file_and_its_tries(chromium: Browser, run: Sample) -> None:
    with opened(chromium, run.page) as found:
        found.page.locator("#scoreboard-ledger tbody tr", has_text="cheap").locator("button.n").first.click()
        words = found.page.locator("dialog[open]").inner_text()
        assert digest_of_bytes((run.folder / "report.json").read_bytes()) in words
        assert digest_of_bytes((run.folder / "attempts.jsonl").read_bytes()) in words
        found.page.get_by_role("button", name="Show its 48 tries").click()
        assert found.page.locator("#tries-count").inner_text() == "1 to 48 of 48"
        assert set(texts(found.page, "#tries-table tbody td:nth-child(2)")) == {"cheap"}


def test_sorting(chromium: Browser, run: Sample) -> None:
    with opened(chromium, run.page) as found:
        heading = found.page.locator("#scores-ledger th", has_text="Valid only")
        column = "#scores-ledger tbody td:nth-child(4)"
        for order, reverse in (("descending", True), ("ascending", False)):
            heading.locator("button").click()
            assert heading.get_attribute("aria-sort") == order
            values = [float(text.removesuffix(" %")) for text in texts(found.page, column)]
            assert values == sorted(values, reverse=reverse)
        found.page.locator("#tries-table th", has_text="Agent s").locator("button").click()
        values = [float(text) for text in texts(found.page, "#tries-table tbody td:nth-child(9)")]
        longest = sorted((one.seconds.agent or 0 for one in run.records), reverse=True)
        assert values == pytest.approx(longest[: len(values)], abs=0.051)


def test_filtering(chromium: Browser, run: Sample) -> None:
    with opened(chromium, run.page) as found:
        visible = "#grid-ledger tbody tr:visible"
        found.page.get_by_label("Task of ledger").fill("TASK-03")
        assert found.page.locator(visible).count() == 1
        assert found.page.locator("[data-count=grid-ledger]").inner_text() == "1 of 16 shown"
        found.page.get_by_label("Task of ledger").fill("")
        found.page.get_by_label("Show").select_option("lost")
        assert texts(found.page, f"{visible} th") == ["task-15"]
        found.page.get_by_label("Show").select_option("flagged")
        assert texts(found.page, f"{visible} th") == ["task-00"]
        found.page.locator("#tries-outcome").select_option("VerifierTimeout")
        assert found.page.locator("#tries-table tbody tr").count() == 1
        found.page.locator("#tries-retained").check()
        assert found.page.locator("#tries-count").inner_text() == "0 to 0 of 0"


def test_copying(chromium: Browser, run: Sample) -> None:
    with opened(chromium, run.page) as found:
        found.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        button = found.page.locator("#fingerprint button.copy").first
        digest = button.get_attribute("data-copy")
        button.click()
        found.page.get_by_text("Copied", exact=True).wait_for()
        assert found.page.evaluate("navigator.clipboard.readText()") == digest


def test_every_chart_has_its_words_and_a_table_beside_it(chromium: Browser, run: Sample) -> None:
    with opened(chromium, run.page) as found:
        charts = found.page.locator("figure.chart svg")
        assert charts.count() == 6
        for chart in charts.all():
            assert chart.get_attribute("role") == "img"
            assert len(chart.locator("desc").text_content() or "") > 30
        front = found.page.locator("#chart-ledger-cost-table")
        assert [text.split()[0] for text in front.locator("tbody tr").all_inner_texts()] == [
            "candidate",
            "cheap",
            "baseline",
        ]


def test_nothing_in_a_chart_is_cut_off_or_lies_over_a_label(chromium: Browser, run: Sample) -> None:
    with opened(chromium, run.page) as found:
        for chart in found.page.locator("figure.chart svg").all():
            assert chart.evaluate(OVERLAPPING) == []


def test_it_reads_without_its_script(chromium: Browser, run: Sample) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(run.page.as_uri())
    words = page.locator("body").text_content() or ""
    assert "candidate is better than baseline" in words
    assert "attempts.jsonl has the same" in words
    context.close()


def test_the_same_files_give_the_same_page(run: Sample, tmp_path: Path) -> None:
    page = page_of_files(run.folder / "report.json", [run.folder / "attempts.jsonl"])
    assert page == run.page.read_text()


def test_what_was_before_is_shown(chromium: Browser, tmp_path: Path) -> None:
    digest = f"sha256:{'e' * 64}"
    file = ledger_file(TASKS)
    began = datetime(2026, 11, 1, tzinfo=UTC)
    earlier = EarlierRun(
        ledger="ledger",
        variant="candidate",
        run="october",
        run_uid="1",
        started_at=began,
        strict=0.25,
        attempts_planned=48,
        attempts_valid=47,
        verdict="NOT PUBLISHABLE",
        report=digest,
    )
    reference = DriftReference(
        ledger="ledger", is_this_run=False, run="september", completed_at=began, attempts=digest
    )
    runs = [run_record({"ledger": file}, RATES, earlier_runs=[earlier], references=[reference])]
    with opened(chromium, sample(tmp_path, runs=runs).page) as found:
        assert "1 other runs of these variants" in found.page.locator("#answer").inner_text()
        words = found.page.locator("#integrity").text_content() or ""
        for text in ("october", "25.0 %", "47/48", digest, "september", "2026-11-01 00:00:00"):
            assert text in words
        assert found.faults() == []


def test_without_a_baseline_it_says_that_nothing_is_compared(chromium: Browser, tmp_path: Path) -> None:
    with opened(chromium, sample(tmp_path, baseline=None, runs=[]).page) as found:
        assert texts(found.page, "h1")[0].startswith("candidate scores ")
        assert texts(found.page, ".lead") == ["Nothing is compared: the run names no baseline."]
        assert found.errors == []


def test_a_suite_is_answered_by_its_index(chromium: Browser, tmp_path: Path) -> None:
    records = [
        *suites.complete("baseline", [0.0, 1.0], [0.0, 1.0]),
        *suites.complete("candidate", [1.0, 1.0], [1.0, 1.0]),
    ]
    files = list(suites.ledgers().values())
    made = written(tmp_path, records, ledgers=files, baseline="baseline", suite=suites.made_up())
    with opened(chromium, made.page) as found:
        assert found.page.locator("h1").inner_text() == "candidate is better than baseline by 50.0 points"
        assert found.page.locator("#scoreboard-index tbody tr").count() == 2
        assert "against 50.0 %" in found.page.locator(".lead").inner_text()
        for chart in found.page.locator("figure.chart svg").all():
            assert chart.evaluate(OVERLAPPING) == []
        assert found.errors == []
        assert found.faults() == []
