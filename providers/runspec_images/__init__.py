"""Images that runspec builds on this machine, and the registries that they are pushed to, for all providers."""
