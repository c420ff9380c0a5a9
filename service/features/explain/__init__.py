"""Why images are similar."""
