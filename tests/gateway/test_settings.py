"""Settings that cannot be used end the process at once, with words that name them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.adapters.environment import BadSettings
from assay.gateway.settings import GatewaySettings

DOCS = Path(__file__).parents[2] / "docs" / "gateway.md"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ASSAY_PORT", "http"),
        ("ASSAY_PORT", "70000"),
        ("ASSAY_VERDICT_SECONDS", "31"),
        ("ASSAY_SECRET_SECONDS", "61"),
        ("ASSAY_UPLOADS", "0"),
        ("ASSAY_PROVIDER_PROXY", "proxy:3128"),
        ("ASSAY_LOG_LEVEL", "loud"),
    ],
)
def test_a_bad_value_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=name):
        GatewaySettings.from_env({name: value})


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"ASSAY_UPLOADS": "0"}, "ASSAY_UPLOADS"),
        ({"AWS_ACCESS_KEY_ID": "half"}, "AWS_SECRET_ACCESS_KEY"),
        ({"KUBECONFIG": "/nonexistent"}, "set KUBECONFIG"),
    ],
)
def test_the_process_ends_with_the_reason(environment: dict[str, str], named: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "assay.gateway"],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_the_documentation_lists_every_setting_with_its_default() -> None:
    text = DOCS.read_text()
    for field in GatewaySettings.model_fields.values():
        row = next((line for line in text.splitlines() if line.startswith(f"| `{field.alias}` |")), None)
        assert row is not None, f"docs/gateway.md lacks {field.alias}"
        assert row.split("|")[2].strip().strip("`") == ("" if field.default is None else str(field.default))
