"""The example of costs in docs/figures.md is computed by the code and compared to its digits."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.unit.report.samples import record, report, row
from tests.unit.report.test_prices import call, sheet

PAGE = (Path(__file__).parents[3] / "docs" / "figures.md").read_text()


def test_the_example_of_a_replaced_try() -> None:
    (block,) = re.findall(r"```replaced\n(.*?)```", PAGE, re.DOTALL)
    calls = {
        "a": call("m", input=1_000_000, cache_read=900_000, cache_write_5m=60_000, output=20_000),
        "b": call("m", input=200_000, cache_read=0, cache_write_5m=0, output=5_000),
    }
    lost = record("t", calls=[calls["b"]], outcome="VerifierTimeout", reward=None, retained=False)
    found = row(report([lost, record("t", try_number=2, calls=[calls["a"]])], sheet=sheet()))
    cost, replaced, lost_tries = found.usage.cost_usd, found.replaced, found.rates.infrastructure
    assert [line.split(maxsplit=1)[1] for line in block.strip().splitlines()] == [
        f"mean {cost.mean} n {cost.n}",
        f"tries {replaced.tries} usd {replaced.cost_usd.total:.2f}",
        f"{lost_tries.count} of {lost_tries.n} tries",
    ]


def test_the_example_of_the_page() -> None:
    (block,) = re.findall(r"```cost E5\n(.*?)```", PAGE, re.DOTALL)
    *calls, unknown, mean = block.strip().splitlines()
    records = []
    for place, line in enumerate(calls):
        words = line.split()
        stated = dict(zip(words[::2], map(Decimal, words[1::2]), strict=True))
        used = {"cache_write_5m" if name == "cache_write" else name: value for name, value in stated.items()}
        usd = used.pop("usd")
        tokens: dict[str, Any] = {name: int(value) for name, value in used.items()}
        one = call("m", **tokens)
        found = row(report([record("a", calls=[one])], sheet=sheet())).usage.cost_usd
        assert found.mean == usd
        records.append(record(f"t{place}", calls=[one]))
    assert unknown == "unknown"
    records.append(record("unknown", calls=None))
    cost = row(report(records, sheet=sheet())).usage.cost_usd
    assert mean.split() == ["mean", str(cost.mean), "n", str(cost.n), "of", str(cost.planned)]
