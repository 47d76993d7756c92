"""The profile that `runspec init --provider azure-batch` writes, to be filled in."""

PROFILE = """\
# Settings of an account, by provider: no job file names them.
providers:
  azure-batch:
    batch_url: https://myaccount.westeurope.batch.azure.com
    storage_account: mystorage
    container: jobs                   # it is there already; all blobs begin with runspec/
    # Without keys: whoever is logged in (az login, a managed identity, ...). With them:
    # batch_key: env:AZURE_BATCH_KEY
    # storage_key: env:AZURE_STORAGE_KEY
    # subscription: 00000000-0000-0000-0000-000000000000   # for runspec doctor azure-batch
    # A pool that is there is used as it is; without one, pools are made and go to no machines:
    # pool: my-pool
    max_nodes: 16
    # How the account was made (portal: Properties). Only user-subscription is sure to have spot machines:
    # pool_allocation: user-subscription
    # For images without Python: files: signed, see docs/azure-batch.md.
    # registry: mine.azurecr.io
    # registry_user: mine
    # registry_password: env:REGISTRY_PASSWORD
    # secrets: {hf: env:HF_TOKEN}
    # shared: {workspace: "files:mystorage/workspace"}
"""
