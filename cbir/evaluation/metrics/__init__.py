"""Quality metrics. Those that need ir-measures are imported by `named_metrics` alone."""
