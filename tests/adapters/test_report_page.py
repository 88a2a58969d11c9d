"""The process in which the operator has its pages made."""

from pathlib import Path

import pytest

from assay.adapters.report_page import PageError, page_in_a_process
from tests.report_html.samples import sample


async def test_it_makes_the_very_page(tmp_path: Path) -> None:
    run = sample(tmp_path)
    report, attempts = run.folder / "report.json", run.folder / "attempts.jsonl"
    page = await page_in_a_process(report, attempts, str(report), str(attempts))
    assert page == run.page.read_bytes()


async def test_what_it_cannot_read_is_told(tmp_path: Path) -> None:
    run = sample(tmp_path)
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n")
    with pytest.raises(PageError, match=r"bad\.jsonl, line 1"):
        await page_in_a_process(run.folder / "report.json", bad, "", "")


async def test_it_gets_no_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nenv\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    seen = await page_in_a_process(tmp_path, tmp_path, "", "")
    assert b"PATH=" in seen
    assert b"AWS" not in seen
