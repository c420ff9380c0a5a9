"""Collections that the service has mounted, and what it caches of them."""
