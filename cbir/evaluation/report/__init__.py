"""Reports as one HTML file, with style, charts and pictures inside: no script, no network."""
