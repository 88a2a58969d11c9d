"""`assay score` and `assay compare`: figures from files, and whether two runs agree."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from assay.adapters.score_files import (
    find_suite,
    packaged_suites,
    read_price_sheet,
    read_report,
    read_run,
    stream_records,
)
from assay.api.attempt_record import RunRecord
from assay.api.report import CodeVersion, Report
from assay.cli.output import InputError, expected_errors, fail, print_json, print_table
from assay.cli.report_files import write_scored_page
from assay.cli.report_output import Format, print_report
from assay.core.collection import Collection
from assay.core.compare import FIELDS, Agreement, Comparison, compare, score_difference
from assay.core.figures.observations import FiguresError
from assay.core.ledger import LedgerFile, LedgerFileError, parse_ledger
from assay.core.prices import Prices
from assay.core.records_file import RecordsError
from assay.core.report import make_report, refuse_other_prices
from assay.core.report_cells import percent, points
from assay.core.score_input import ReportRefusedError, ScoreInput, match_components, scored_ledgers
from assay.core.suites import SuiteError

DISAGREE = 3
"""Exit status of `compare` where the runs do not agree."""

RUN_FILE = "run.json"


def code_version() -> CodeVersion:
    """This code: its version, and the commit that an image or a checkout says it was built of."""
    return CodeVersion(assay=version("assay"), commit=os.environ.get("ASSAY_COMMIT") or None)


def score(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES…",
            exists=True,
            dir_okay=False,
            help="attempts.jsonl of a run, or what `assay import` wrote. A run.json beside one is read too.",
        ),
    ],
    ledger: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Ledger file of the records; repeat it for several. Absent = the records' tasks.",
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(help="Suite for the index: name@version, or a YAML file. `assay suites` lists them."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Variant that the others are compared with; absent = the run's.")
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Price sheet from `assay prices build`."),
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="attempts.jsonl of an earlier run of the baseline, to test it for drift.",
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write the report as one self-contained HTML page to this file.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How the report is printed.")] = Format.TABLE,
    details: Annotated[
        bool, typer.Option("--details", help="Also pass@k, scores by label, both lines of error.")
    ] = False,
) -> None:
    """Turn recorded attempts into scores with their errors, costs and companions.

    The start: score what a run left, or what Harbor left.

        assay score attempts.jsonl

        assay import harbor jobs/2026-11-30__12-00-00 -o attempts.jsonl && assay score attempts.jsonl

    With everything that a publishable report needs:

        assay score attempts.jsonl --ledger ledger.jsonl --prices prices.json --suite
        coding-agent-index@1.5 \\
            --baseline terminus-2 --reference first-run/attempts.jsonl --format json > report.json
    """
    with expected_errors():
        report = _report(files, ledger or [], suite, baseline, prices, reference or [])
        if html is not None:
            write_scored_page(html, report, files)
    print_report(report, form, details=details)


def _report(
    files: list[Path],
    ledgers: list[Path],
    suite: str | None,
    baseline: str | None,
    prices: Path | None,
    reference: list[Path],
) -> Report:
    try:
        parsed = [_ledger(path) for path in ledgers]
        runs = _runs(files)
        sheet = Prices(read_price_sheet(prices)) if prices else None
        tasks = {one.digest: frozenset(one.by_id) for one in parsed}
        collection = Collection(sheet, tasks)
        collection.add_all(stream_records(files))
        refuse_other_prices(collection)
        earlier = _references(reference, tasks, runs.values())
        definition = find_suite(suite) if suite else None
        scored = scored_ledgers(collection, parsed, runs.values())
        given = ScoreInput(
            collection=collection,
            ledgers=scored,
            runs=runs,
            suite=definition,
            components=match_components(definition, scored) if definition else {},
            baseline=baseline or next((run.baseline for run in runs.values() if run.baseline), None),
            reference=earlier,
        )
        return make_report(given, code_version())
    except (FiguresError, RecordsError, ReportRefusedError, SuiteError) as error:
        raise InputError(str(error)) from error


def _references(
    files: list[Path], tasks: Mapping[str, frozenset[str]], runs: Iterable[RunRecord]
) -> list[Collection]:
    """The records of each reference run: the one that run.json names, where it names one."""
    named = {one.attempts for run in runs for one in run.references if one.attempts}
    found = []
    for path in files:
        with path.open("rb") as file:
            digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        if named and digest not in named:
            raise InputError(
                f"--reference {path} has {digest}; run.json names the reference run's records as "
                f"{', '.join(sorted(named))}: give that file"
            )
        found.append(Collection(None, tasks))
        found[-1].add_all(stream_records([path]))
    return found


def _ledger(path: Path) -> LedgerFile:
    try:
        return parse_ledger(path.read_bytes())
    except LedgerFileError as error:
        raise InputError(f"{path}: {error}") from error


def _runs(files: list[Path]) -> dict[str, RunRecord]:
    paths = {path.parent / RUN_FILE for path in files}
    runs = [read_run(path) for path in sorted(paths) if path.is_file()]
    return {run.uid: run for run in runs}


def suites() -> None:
    """List the suites that Assay ships, with their version history.

    Example:

        assay suites
    """
    print_table(
        ("SUITE", "VERSION", "WHEN", "COMPONENTS", "CHANGE"),
        (
            (
                suite.name,
                f"{note.version}*" if note.version == suite.version else note.version,
                note.released or note.known or None,
                ", ".join(note.components),
                note.change,
            )
            for suite in packaged_suites().values()
            for note in suite.history
        ),
    )


def compare_reports(
    first: Annotated[
        Path, typer.Argument(metavar="A", exists=True, dir_okay=False, help="report.json of a run.")
    ],
    second: Annotated[Path, typer.Argument(metavar="B", exists=True, dir_okay=False, help="Of another.")],
    despite: Annotated[
        list[str] | None,
        typer.Option(help=f"Part of the fingerprint that may differ: {', '.join(FIELDS)}. May be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say whether two runs agree within their stated error.

    Exact tests on each variant's tasks, at 5 % over all of them together. Runs that measured different
    things are
    refused, naming what differs. Exit status: 0 agree, 3 do not, 1 refused.

    Example:

        assay compare tuesday/report.json thursday/report.json
    """
    with expected_errors():
        unknown = set(despite or ()) - set(FIELDS)
        if unknown:
            raise InputError(f"--despite {', '.join(sorted(unknown))}: the parts are {', '.join(FIELDS)}")
        try:
            found = compare(read_report(first), read_report(second), frozenset(despite or ()))
        except ValueError as error:
            raise InputError(str(error)) from error
    if as_json:
        print_json(_comparison_json(found))
    else:
        _print_comparison(found)
    if not found.rows:
        fail("the reports have no ledger and variant in common")
    if not found.agrees:
        raise typer.Exit(DISAGREE)


def _print_comparison(found: Comparison) -> None:
    print_table(
        ("LEDGER", "VARIANT", "A", "B", "B - A", "NOISE", "P SHIFT", "P ANY", "WOULD HAVE FOUND", "AGREE"),
        (
            (
                row.ledger,
                row.variant,
                percent(row.first),
                percent(row.second),
                points(_float(row)),
                points(row.drift.repeat_noise).lstrip("+") if row.drift else None,
                _p(row.p_shift.adjusted if row.p_shift else None),
                _p(row.p_any.adjusted if row.p_any else None),
                points(row.drift.detectable.size).lstrip("+") if row.drift else None,
                {True: "yes", False: "NO", None: f"unknown: {row.reason}"}[row.agrees],
            )
            for row in found.rows
        ),
    )
    for one in found.differences:
        typer.echo(f"differs: {one.field}: {one.words}")
    for where, names in (("A", found.only_first), ("B", found.only_second)):
        for name in names:
            typer.echo(f"only in {where}: {name}")


def _p(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}"


def _float(row: Agreement) -> float | None:
    shift = score_difference(row)
    return None if shift is None else float(shift)


def _comparison_json(found: Comparison) -> dict[str, object]:
    return {
        "agree": found.agrees,
        "rows": [
            {
                "ledger": row.ledger,
                "variant": row.variant,
                "first": row.first,
                "second": row.second,
                "shift": _float(row),
                "repeatNoise": row.drift.repeat_noise if row.drift else None,
                "adjustedPShift": row.p_shift.adjusted if row.p_shift else None,
                "adjustedPAny": row.p_any.adjusted if row.p_any else None,
                "detectable": row.drift.detectable.size if row.drift else None,
                "agree": row.agrees,
                "reason": row.reason,
            }
            for row in found.rows
        ],
        "differences": [{"field": one.field, "words": one.words} for one in found.differences],
        "onlyFirst": list(found.only_first),
        "onlySecond": list(found.only_second),
    }
