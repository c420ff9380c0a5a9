"""Images that the intake check set aside."""
