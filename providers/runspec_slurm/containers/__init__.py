"""Container runtimes on a cluster, and what replaces an image without one."""
