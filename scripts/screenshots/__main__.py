"""Makes pictures for docs/ anew.

python -m localcluster shell -- .venv/bin/python -m scripts.screenshots dashboards|drift|report|terminal
"""

import argparse
from pathlib import Path

from scripts.screenshots import dashboards, drift, report, terminal

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"


def main() -> None:
    """Take the pictures that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=PICTURES, help="where the pictures go")
    commands = parser.add_subparsers(required=True)
    modules = {"dashboards": dashboards, "drift": drift, "report": report, "terminal": terminal}
    for name, module in modules.items():
        command = commands.add_parser(name, help=module.__doc__)
        module.add_arguments(command)
        command.set_defaults(take=module.take)
    chosen = parser.parse_args()
    chosen.take(chosen, chosen.folder)


if __name__ == "__main__":
    main()
