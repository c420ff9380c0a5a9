"""Check of images before they are added: burned-in text, damage, and images that do not fit the collection."""
