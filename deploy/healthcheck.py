"""Container health check: exit with 0 if the service on this machine can answer searches, or answers /livez."""

import ssl
import sys
import urllib.request

from cbir import settings
from cbir.errors import CbirError

LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # used if the service listens on every address

path = sys.argv[1] if len(sys.argv) > 1 else "/readyz"

try:
    config = settings.load()
    host = LOOPBACK.get(config.host, config.host)
    scheme = "https" if config.tls_certificate else "http"
    address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{config.port}{path}"
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),
        # The certificate is for the public host name.
        urllib.request.HTTPSHandler(context=ssl._create_unverified_context()),
    )
    direct.open(address, timeout=4).close()
except (OSError, CbirError) as error:
    sys.exit(str(error))
