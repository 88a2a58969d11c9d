"""Pictures of `kubectl assay` on a terminal: the real program on a pseudo-terminal, on a real run."""

import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from argparse import ArgumentParser, Namespace
from fcntl import ioctl
from pathlib import Path

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

from assay.api.evaluation_run import EvaluationRun
from demo import target as targets
from demo.install import RUN_NAMESPACE
from demo.kube import RUNS, Kube
from scripts.screenshots.browser import save_picture
from scripts.screenshots.report_run import made_run

ASSAY = str(Path(sys.executable).with_name("assay"))
COLUMNS, LINES = 150, 200
PICTURE_WIDTH = 1500


def add_arguments(parser: ArgumentParser) -> None:
    """What can be chosen."""
    parser.add_argument("--run", help="name of an ended run with a trajectory; absent = one is made")
    parser.add_argument("--namespace", default=RUN_NAMESPACE, help="namespace of the run")
    parser.add_argument("--task", default="count-requests", help="task whose attempt is explained")
    parser.add_argument("--variant", default="terminus-2", help="variant whose attempt is explained")


def take(chosen: Namespace, folder: Path) -> None:
    """Save one picture a view."""
    target = targets.choose()
    with Kube(target.kubeconfig) as kube:
        name = chosen.run or made_run(target, kube).metadata.name
        EvaluationRun.parse(kube.get(RUNS, chosen.namespace, name))
    environment = {**os.environ, **target.storage.environment()}
    attempt = (name, chosen.task, chosen.variant)
    for view, arguments in {
        "show": ("show", name),
        "watch": ("watch", name),
        "explain": ("explain", *attempt),
        "trajectory": ("trajectory", *attempt, "--limit", "400"),
    }.items():
        command = ("assay", *arguments, "-n", chosen.namespace)
        lines = on_terminal([ASSAY, *command[1:]], environment)
        save(f"kubectl {' '.join(command)}", lines, folder / f"terminal-{view}.png")


def on_terminal(command: list[str], environment: dict[str, str]) -> list[Text]:
    """What the terminal shows when the command has ended, without the empty lines at its end."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    settings = {**environment, "TERM": "xterm-256color"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=settings):
        os.close(theirs)
        try:
            while chunk := os.read(ours, 4096):
                stream.feed(chunk)
        except OSError:
            pass  # EIO: the last process that had the terminal has ended.
        finally:
            os.close(ours)
    shown = [_line(screen, number) for number in range(LINES)]
    while shown and not shown[-1].plain.strip():
        shown.pop()
    return shown


def save(title: str, lines: list[Text], picture: Path) -> None:
    """Draw the lines as a terminal window."""
    with tempfile.TemporaryDirectory() as scratch, (Path(scratch) / "null").open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere)
        # The drawing cuts what goes below the base of its last line.
        for line in (*lines, Text()):
            console.print(line, soft_wrap=True)
        drawing = console.export_svg(title=title)
        page = Path(scratch) / "view.html"
        page.write_text(
            f"<!doctype html><meta charset=utf-8><style>body{{margin:0}}svg{{display:block}}</style>{drawing}"
        )
        save_picture(page, picture, PICTURE_WIDTH, height=1)


def _line(screen: pyte.Screen, number: int) -> Text:
    row, line = screen.buffer[number], Text()
    for column in range(COLUMNS):
        cell = row[column]
        line.append(cell.data, Style(color=_color(cell.fg), bold=cell.bold, italic=cell.italics))
    line.rstrip()
    return line


def _color(name: str) -> str | None:
    """A colour of pyte as rich names it: pyte knows names and hexadecimal digits."""
    if name == "default":
        return None
    if len(name) == 6 and all(digit in "0123456789abcdef" for digit in name.lower()):
        return f"#{name}"
    return "yellow" if name == "brown" else name.replace("bright", "bright_")
