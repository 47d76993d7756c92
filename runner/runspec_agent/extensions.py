"""The stores, preemption watchers and sources of secrets of the agent, each as "module:name".

A provider of another distribution brings its own by entry points: `runspec_jobs.provider.payload` packs their modules
into the agent, and lets this module end with lines that name them. A module is imported when a job needs it.
"""

import importlib
from typing import Any, Dict

from runspec_agent.base.failure import Failure

# By the scheme of RUNSPEC_STORE: a subclass of `store.base.Bucket`, which is called without arguments.
STORES = {
    "file": "runspec_agent.store.folder:FolderBucket",
    "http": "runspec_agent.store.blob:BlobBucket",
    "https": "runspec_agent.store.blob:BlobBucket",
    "s3": "runspec_agent.store.s3:S3Bucket",
}
# By `spot` of the run's record: a subclass of `preemption.watcher.PreemptionWatcher`, which is called with the
# environment of the job.
PREEMPTION = {
    "azure": "runspec_agent.preemption.azure:ScheduledEventsWatcher",
    "ec2": "runspec_agent.preemption.ec2:Ec2PreemptionWatcher",
}
# By the variable of the job that asks for it: a function of the store and of the environment, into which it puts the
# secrets.
SECRETS = {
    "RUNSPEC_VAULT": "runspec_agent.store.key_vault:fill",
    "RUNSPEC_SECRETS": "runspec_agent.store.secrets_file:fill",
}


def load(table: Dict[str, str], name: str, what: str) -> Any:
    """Return the object called *name* in *table*. Raise Failure, which calls it *what*, if there is none."""
    if name not in table:
        text = "this agent has no {} '{}': it has {}"
        raise Failure(text.format(what, name, ", ".join(sorted(table))))
    module, _, attribute = table[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
