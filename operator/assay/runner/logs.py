"""The runner's log: on standard error for `kubectl logs`, and in a file for the evidence."""

import logging
import sys
import time
from pathlib import Path

_NOISY = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "httpx", "httpcore", "asyncio", "aiohttp.access")
_LARGEST_LOG_BYTES = 64 << 20


class _BoundedFile(logging.FileHandler):
    """Stops at a size: a chatty library must not fill the node's disk."""

    def emit(self, record: logging.LogRecord) -> None:
        if self.stream is None or self.stream.tell() < _LARGEST_LOG_BYTES:
            super().emit(record)


def configure_logs(file: Path, job_name: str) -> None:
    """Every line names the try (cases.md C20)."""
    file.parent.mkdir(parents=True, exist_ok=True)
    layout = logging.Formatter(
        f"%(asctime)s.%(msecs)03dZ %(levelname)s {job_name.replace('%', '')} %(name)s: %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    layout.converter = time.gmtime
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr), _BoundedFile(file)]
    for handler in handlers:
        handler.setLevel(logging.INFO)
        handler.setFormatter(layout)
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
