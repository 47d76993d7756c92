"""Start programs on all nodes: MPI, torchrun, and the remote shell between nodes."""
