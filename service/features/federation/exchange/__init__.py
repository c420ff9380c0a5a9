"""Search over several services: messages, checks of what others answer, and merging. Sends nothing by itself."""
