"""The provider `kubernetes`: a run is one Job of `batch/v1`, whose pods run the agent."""

from runspec_kubernetes.provider import PROVIDER as PROVIDER
