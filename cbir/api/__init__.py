"""Python API: what `import cbir` offers."""
