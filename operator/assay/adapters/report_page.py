"""The HTML report from a report's files; for the operator in a process of its own.

A drawing takes about 100 MB and some seconds of a processor for a large run: the operator must neither keep
the memory nor stand still, and a fault of the drawing engine must not take it along.
"""

import argparse
import asyncio
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from assay.adapters.score_files import read_report, stream_records
from assay.core.canonical import digest_of_bytes
from assay.core.report_html.page import report_page
from assay.core.report_html.source import FileAddress, Source

MAX_SECONDS = 300
_LAST_WORDS = 2000
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
"""What the process gets of the operator's environment: no credential, for it handles text from outside."""


class PageError(ValueError):
    """No page could be made; the message has the last words of the process that tried."""


def page_of_files(
    report: Path, attempts: Sequence[Path], report_address: str = "", attempts_addresses: Sequence[str] = ()
) -> str:
    """The page of a `report.json` and the `attempts.jsonl` behind it; addresses default to the paths.

    Raises ScoreFileError, RecordsError and OSError.
    """
    addresses = attempts_addresses or [str(path) for path in attempts]
    source = Source(
        read_report(report),
        FileAddress(report_address or str(report), digest_of_bytes(report.read_bytes())),
        [FileAddress(address, _digest(path)) for path, address in zip(attempts, addresses, strict=True)],
    )
    return report_page(source, (record for _, record in stream_records(attempts)))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


async def page_in_a_process(
    report: Path, attempts: Path, report_address: str, attempts_address: str
) -> bytes:
    """`page_of_files` in a process of its own. Raises PageError."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "assay.adapters.report_page"),
        *(str(report), str(attempts), report_address, attempts_address),
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(MAX_SECONDS):
            page, words = await process.communicate()
    except TimeoutError as error:
        raise PageError(f"it took more than {MAX_SECONDS} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise PageError(words.decode(errors="replace")[-_LAST_WORDS:] or f"exit status {process.returncode}")
    return page


def main() -> int:
    """Writes the page to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("report", "attempts"):
        parser.add_argument(name, type=Path)
    for name in ("report_address", "attempts_address"):
        parser.add_argument(name)
    given = parser.parse_args()
    try:
        page = page_of_files(given.report, [given.attempts], given.report_address, [given.attempts_address])
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    sys.stdout.buffer.write(page.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
