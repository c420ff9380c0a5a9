"""One folder for each feature: routes, messages, client, pages, commands."""
