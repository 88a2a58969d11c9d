"""Writes everything that is generated from the models; with --check only says whether anything differs.

python -m scripts.generate [--check]
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# Only found once the root is on the path.
from scripts.crds import chart_template, crd_files  # noqa: E402
from scripts.dashboards import dashboard_files  # noqa: E402
from scripts.metrics_page import metrics_page  # noqa: E402
from scripts.record_schemas import schema_files  # noqa: E402
from scripts.reference_pages import reference_files  # noqa: E402


def generated_files() -> dict[str, str]:
    """Path under the checkout and content of every generated file."""
    return {
        **crd_files(),
        "charts/assay/templates/crds.yaml": chart_template(),
        **schema_files(),
        **reference_files(),
        **dashboard_files(),
        **metrics_page(),
    }


def main() -> int:
    """Writes the files, or compares them; 1 if with --check any differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file differs")
    check = parser.parse_args().check
    stale = []
    for name, content in generated_files().items():
        path = ROOT / name
        if path.is_file() and path.read_text() == content:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    for name in stale:
        print(f"{'differs from the models' if check else 'written'}: {name}")
    if check and stale:
        print("run `make generate` and commit the result", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
