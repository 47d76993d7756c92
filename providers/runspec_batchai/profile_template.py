"""The profile that `runspec init --provider azure-batch-ai` writes."""

PROFILE = """\
# Azure Batch AI was retired on 31 March 2019: this is for rehearsals, exports, and endpoints with its API.
providers:
  azure-batch-ai:
    subscription: 00000000-0000-0000-0000-000000000000    # az account show --query id
    location: eastus
    resource_group: runspec
    storage_account: mystorage
    container: jobs               # inputs and outputs of jobs
    file_share: logs              # the output that jobs print
    ssh_public_key: "ssh-ed25519 AAAA..."
    secrets:
      storage-key: env:AZURE_STORAGE_KEY
"""
