"""`python -m assay.gateway`."""

import asyncio
import logging
import sys

from assay.adapters.environment import BadSettings
from assay.adapters.kube_config import KubeConfigError
from assay.gateway.serve import serve
from assay.gateway.settings import Settings


def main() -> int:
    """Exit status 2 for settings that cannot be used, each named on standard error."""
    try:
        settings = Settings.from_env()
    except (BadSettings, KubeConfigError) as error:
        print(f"the gateway's settings cannot be used: {error}", file=sys.stderr)
        return 2
    logging.basicConfig(
        level=settings.gateway.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )
    asyncio.run(serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
