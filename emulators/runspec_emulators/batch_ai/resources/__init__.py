"""The resources of the service: how they are created, listed, changed and deleted."""
