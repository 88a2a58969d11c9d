"""Marks every test by the folder it lies in, so that `-m` chooses what a machine can run."""

from pathlib import Path

import pytest

# Failures of the kits that several folders share tell what was compared, as those of tests do.
pytest.register_assert_rewrite("tests.operator_kit")

_HERE = Path(__file__).parent
_MARKERS = {"unit", "api", "e2e", "corpus"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            folder = item.path.relative_to(_HERE).parts[0]
            if folder in _MARKERS:
                item.add_marker(folder)
