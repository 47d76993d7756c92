"""The configuration of a cluster and its queues."""
