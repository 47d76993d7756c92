"""Container engines of a cluster, and the environment that replaces an image without one."""
