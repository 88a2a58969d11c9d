"""`assay prices`: price sheets, made from a named source and reviewed by a person."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import typer

from assay.adapters.list_prices import PriceUnknownError, build_price_sheet
from assay.adapters.score_files import read_price_sheet
from assay.api.price_sheet import PriceReview, PriceSheet
from assay.cli.output import InputError, console, expected_errors, print_table
from assay.core.canonical import digest_of

app = typer.Typer(
    name="prices",
    help="Make and review the price sheet that costs are computed with.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.command()
def build(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODELS…", help="As calls name them; PROVIDER/MODEL where one name is ambiguous."
        ),
    ],
    day: Annotated[
        datetime | None,
        typer.Option(
            "--date", formats=["%Y-%m-%d"], help="Day that the prices hold on; absent = today (UTC)."
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the sheet is written.")] = Path(
        "prices.json"
    ),
) -> None:
    """Make a price sheet from the list prices in the `genai-prices` package; no network is used.

    Compare it with the providers' own pages, then sign it with `assay prices review`.

    Example:

        assay prices build claude-opus-5-5 gpt-6.1-sol --date 2026-11-30 -o prices.json
    """
    with expected_errors():
        on = day.date() if day else datetime.now(UTC).date()
        try:
            sheet = build_price_sheet(models, on)
        except PriceUnknownError as error:
            raise InputError(str(error)) from error
        _write(sheet, output)
    _show(sheet)
    console.print(f"{output}: compare it with the providers' pages, then `assay prices review`", markup=False)


@app.command()
def review(
    sheet: Annotated[
        Path, typer.Argument(metavar="SHEET", exists=True, dir_okay=False, help="The sheet that was checked.")
    ],
    by: Annotated[str, typer.Option(help="Who compared it with the providers' pages.")],
    on: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Day of the review; absent = today (UTC).")
    ] = None,
) -> None:
    """Record that a person has checked a sheet. Without a review no report with it is publishable.

    Example:

        assay prices review prices.json --by "Ada Lovelace"
    """
    with expected_errors():
        day: date = on.date() if on else datetime.now(UTC).date()
        reviewed = read_price_sheet(sheet).model_copy(update={"reviewed": PriceReview(by=by, on=day)})
        _write(reviewed, sheet)
    _show(reviewed)
    _how_to_name(reviewed, sheet)


def _write(sheet: PriceSheet, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(sheet.model_dump_json(by_alias=True, indent=2, exclude_none=True) + "\n")


def _show(sheet: PriceSheet) -> None:
    print_table(
        (
            "MODEL",
            "SOURCE",
            "ABOVE",
            "INPUT",
            "CACHE READ",
            "WRITE 5 MIN",
            "WRITE 1 H",
            "OUTPUT",
            "REASONING",
        ),
        (
            (
                one.model,
                f"{one.provider}/{one.priced_as}",
                above,
                rates.input,
                rates.cache_read,
                rates.cache_write_5m,
                rates.cache_write_1h,
                rates.output,
                rates.reasoning,
            )
            for one in sheet.models
            for above, rates in [
                (0, one.rates),
                *((long.above_input_tokens, long.rates) for long in one.long),
            ]
        ),
    )
    typer.echo(
        f"USD per million tokens on {sheet.valid_on}, from {sheet.source.package} {sheet.source.version}"
    )
    typer.echo(f"digest\t{digest_of(sheet)}")


def _how_to_name(sheet: PriceSheet, path: Path) -> None:
    """How a run uses the sheet: the digest changes with every edit, so it is printed anew each time."""
    console.print(
        f"for a run: kubectl create configmap prices --from-file=prices.json={path}, then\n"
        "  priceSheet:\n"
        f"    digest: {digest_of(sheet)}\n"
        "    source: {configMap: {name: prices}}",
        markup=False,
        soft_wrap=True,
    )
