"""Views for readers, and the snapshot that is built for them."""
