"""The Azure Batch AI provider, for the API 2018-05-01 of the service that was retired on 31 March 2019."""

from runspec_batchai.provider import PROVIDER as PROVIDER
