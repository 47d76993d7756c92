"""Discovery: the resources and programs of a cluster and its nodes."""
