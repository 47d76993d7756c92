"""Azure Batch AI, API 2018-05-01, as it was until 31 March 2019."""

from runspec_azure.batchai.provider import PROVIDER as PROVIDER
