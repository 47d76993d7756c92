"""What ParallelCluster cannot do of a spec."""
