"""What `runspec setup azure-batch` makes: a resource group, storage, an identity, a Batch account, and roles."""
