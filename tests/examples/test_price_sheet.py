"""The example run names the example price sheet, and the sheet prices the example's model."""

from pathlib import Path
from typing import Any

import yaml

from assay.core.prices import parse_price_sheet

MANIFESTS = Path(__file__).resolve().parents[2] / "examples" / "manifests"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((MANIFESTS / name).read_text()))


def test_the_run_names_the_sheet_and_the_sheet_prices_the_model() -> None:
    (config_map,) = documents("price-sheet.yaml")
    (run,) = documents("evaluation-run.yaml")
    named = run["spec"]["priceSheet"]
    assert named["source"]["configMap"]["name"] == config_map["metadata"]["name"]
    prices = parse_price_sheet(config_map["data"]["prices.json"].encode(), named["digest"])
    called = {
        model["name"].removeprefix("openai/")
        for variant in documents("agent-variants.yaml")
        for model in variant["spec"].get("models", [])
    }
    assert called == prices.models
    assert prices.sheet.reviewed is None, "a sheet that is made up must not pass for a checked one"
