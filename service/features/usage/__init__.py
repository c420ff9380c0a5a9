"""Usage log: which answers of the search page were opened and judged, to compare methods later."""
