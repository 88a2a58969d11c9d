"""`kubectl_complete-assay`: kubectl asks the program of this name what may follow `kubectl assay …`."""

import os
import shlex
import sys

from assay.cli.app import app


def main() -> None:
    """Print one candidate a line, with its help after a tab: kubectl reads what fish does.

    Arguments are the words after `kubectl assay`; the last one is still being typed.
    """
    # Words are not options of ours, whatever they look like: the completion of Typer reads them from here.
    os.environ |= {
        "_ASSAY_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": shlex.join(["assay", *(sys.argv[1:] or [""])]),
    }
    app(prog_name="assay")
