"""The providers for Azure: `azure-batch`, and `azure-batch-ai` as it was."""
