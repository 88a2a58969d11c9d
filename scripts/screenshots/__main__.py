"""Makes pictures for docs/ anew.

python -m localcluster shell -- .venv/bin/python -m scripts.screenshots dashboards|report|terminal
"""

import argparse
from pathlib import Path

from scripts.screenshots import dashboards, report, terminal

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"


def main() -> None:
    """Take the pictures that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=PICTURES, help="where the pictures go")
    commands = parser.add_subparsers(required=True)
    for name, module in {"dashboards": dashboards, "report": report, "terminal": terminal}.items():
        command = commands.add_parser(name, help=module.__doc__)
        module.add_arguments(command)
        command.set_defaults(take=module.take)
    chosen = parser.parse_args()
    chosen.take(chosen, chosen.folder)


if __name__ == "__main__":
    main()
