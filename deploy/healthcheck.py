"""Exit code 0 when the service on this machine can answer searches; for containers, with the service's settings."""

import ssl
import sys
import urllib.request

from cbir import settings
from cbir.errors import CbirError

OF_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # where one that listens on every address is asked

try:
    asked = settings.load()
    host = OF_ANY.get(asked.host, asked.host)
    scheme = "https" if asked.tls_certificate else "http"
    address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{asked.port}/readyz"
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),
        # The certificate is for the name that others use.
        urllib.request.HTTPSHandler(context=ssl._create_unverified_context()),
    )
    direct.open(address, timeout=4).close()
except (OSError, CbirError) as error:
    sys.exit(str(error))
