"""Discovery of the Batch AI quotas of a subscription."""
