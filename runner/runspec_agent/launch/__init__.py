"""Start programs on all nodes: MPI, torchrun, ranks without either, and the remote shell between nodes."""
