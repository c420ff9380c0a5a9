"""HTML pages of the core: search, gallery, administration, documents, and the pictures they show."""
