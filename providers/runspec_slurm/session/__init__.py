"""How commands reach a cluster."""
