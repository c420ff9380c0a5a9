"""Exit code 0 when the service on this machine can answer searches; for containers."""

import os
import ssl
import sys
import urllib.request

scheme = "https" if os.environ.get("CBIR_TLS_CERTIFICATE") else "http"
address = f"{scheme}://127.0.0.1:{os.environ.get('CBIR_PORT', '8000')}/readyz"
try:  # the certificate is for the name that others use
    urllib.request.urlopen(address, timeout=4, context=ssl._create_unverified_context())
except OSError as error:
    sys.exit(str(error))
