"""YAML documents in and out, with the position of everything in them."""
