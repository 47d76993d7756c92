"""The providers for Azure: `azure-batch`, and `azure-batch-ai` for the retired Batch AI."""
