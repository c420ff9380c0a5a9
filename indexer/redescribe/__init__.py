"""`cbir collection redescribe`."""
