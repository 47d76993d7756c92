"""What tests of the provider of Kubernetes share."""
