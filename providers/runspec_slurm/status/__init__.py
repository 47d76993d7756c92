"""How tasks stand, from the queue and from the workspace."""
