"""What a subscription says of its Batch AI quotas."""
