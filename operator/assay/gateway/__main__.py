"""`python -m assay.gateway`."""

import asyncio
import logging
import sys

from assay.adapters.environment import BadSettings
from assay.gateway.serve import serve
from assay.gateway.settings import Settings


def main() -> int:
    """Exit status 2 for settings that cannot be used, each named on standard error."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr
    )
    try:
        settings = Settings.from_env()
    except BadSettings as error:
        print(f"the gateway's settings cannot be used: {error}", file=sys.stderr)
        return 2
    asyncio.run(serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
