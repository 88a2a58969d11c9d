"""`python -m scripted_model`: serves until SIGTERM.

Environment: SCRIPTED_MODEL_API_KEY (needed), SCRIPTED_MODEL_ADDRESS (default 0.0.0.0:8000).
"""

import os
import signal
import sys
import threading

from scripted_model.server import ScriptedModelServer


def main() -> None:
    """Starts the server; a missing or wrong setting ends it with a message."""
    api_key = os.environ.get("SCRIPTED_MODEL_API_KEY", "")
    if not api_key:
        sys.exit("SCRIPTED_MODEL_API_KEY is not set: it is the key that callers must send")
    address = os.environ.get("SCRIPTED_MODEL_ADDRESS", "0.0.0.0:8000")
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        sys.exit(f"SCRIPTED_MODEL_ADDRESS is {address!r}: it must be HOST:PORT")
    server = ScriptedModelServer((host, int(port)), api_key)
    # shutdown() waits for serve_forever, which this thread runs: so another one has to call it.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"scripted model: serving on {host}:{server.server_port}", flush=True)
    server.serve_forever()
    server.server_close()


if __name__ == "__main__":
    main()
