"""What Azure Batch cannot do of a spec."""
