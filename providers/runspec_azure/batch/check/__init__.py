"""Problems of a spec that Azure Batch cannot run."""
