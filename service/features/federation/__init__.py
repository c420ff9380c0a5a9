"""Asking other services, and answering them."""
