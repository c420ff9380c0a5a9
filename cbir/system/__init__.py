"""Files, threads, addresses, extras, devices: what everything uses."""
