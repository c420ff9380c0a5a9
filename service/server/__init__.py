"""Connections of the HTTP server: everything between the listening socket and the app."""
