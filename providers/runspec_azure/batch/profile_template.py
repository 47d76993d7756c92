"""The profile that `runspec init --provider azure-batch` writes, as a template."""

PROFILE = """\
# Settings of an account, by provider: no job file names them.
providers:
  azure-batch:
    batch_url: https://myaccount.westeurope.batch.azure.com
    storage_account: mystorage
    container: jobs                   # an existing container; all blob names begin with runspec/
    # Without keys, the login of this machine is used (az login, a managed identity, ...). With keys:
    # batch_key: env:AZURE_BATCH_KEY
    # storage_key: env:AZURE_STORAGE_KEY
    # subscription: 00000000-0000-0000-0000-000000000000   # for runspec doctor azure-batch
    # An existing pool is used as it is; without this, runspec makes pools, which have no machines while idle:
    # pool: my-pool
    max_nodes: 16
    # Pool allocation mode of the account (portal: Properties), if it is not the usual batch-service:
    # pool_allocation: user-subscription
    # For images without Python: files: signed, see docs/azure-batch.md.
    # registry: mine.azurecr.io
    # registry_user: mine
    # registry_password: env:REGISTRY_PASSWORD
    # secrets: {hf: env:HF_TOKEN}
    # shared: {workspace: "files:mystorage/workspace"}
"""
