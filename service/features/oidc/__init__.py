"""Login by OpenID Connect."""
