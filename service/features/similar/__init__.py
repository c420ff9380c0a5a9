"""Similar studies, series or instances."""
