"""HTML pages: search, viewer embed, and the pictures they show."""
