"""The two real data sets of ../shared/datasets, unpacked once."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with `deepswe-v1.1/tasks` and `swe-atlas-qna`."""
    shared = Path(os.environ.get("ASSAY_SHARED") or ROOT.parent / "shared") / "datasets"
    if not (shared / "unpack").is_file():
        pytest.skip(f"the real data sets are not at {shared}; name their parent folder in ASSAY_SHARED")
    folder = tmp_path_factory.mktemp("datasets")
    subprocess.run([shared / "unpack", folder], check=True, stdout=subprocess.DEVNULL)
    return folder
