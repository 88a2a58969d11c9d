"""Marks every test by the folder it lies in, so that `-m` chooses what a machine can run."""

from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_MARKERS = {"unit", "api", "e2e", "corpus"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            folder = item.path.relative_to(_HERE).parts[0]
            if folder in _MARKERS:
                item.add_marker(folder)
