"""The provider `azure-batch-ai`."""
