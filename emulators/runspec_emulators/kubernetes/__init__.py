"""An emulator for the API server of Kubernetes 1.36 with controllers and nodes, on the loopback interface.

Rules come from the documentation (kubernetes.io), from the OpenAPI that a kube-apiserver 1.36.2 serves (the schemas in
`api/schemas.json`), and from users' reports; each rule is next to the code that enforces it. Pods really run: their
containers are processes of this machine, which ignore images, or containers of podman.

Not supported, and refused: server-side apply, tables, protobuf, YAML in requests, attach, ephemeral containers,
SPDY, custom resources, admission webhooks, all resources but those in `resources.py`. Accepted without effect:
affinity between pods, topology spread, probes, hooks, security contexts, sysctls, services (a pod's
address is reached directly; there is no DNS), image pull secrets, limits of resources (only the scheduler counts
requests). managedFields are not kept.

Processes have what the kubelet gives containers, with these differences: a process is not number 1 of a namespace, so
that SIGTERM ends one without a handler; users are those of the emulator; there is no KUBERNETES_SERVICE_HOST and no
token of a service account. Without roots of their own (`own_root`), mounts are not where the pod asks for them: the
paths of mounts are then replaced by real ones in the command, the arguments and the variables.

Chosen here, because no document says: the texts of most refusals, and which is said first; pods that a job itself
deletes, when it is suspended or has too many, do not count as failed; the status of a pod on a lost node stays as it
was; a log is gone as soon as its pod is; which pods a job has too many of; the order in which indexes are tried again;
which node a pod gets: the one with the fewest pods; victims of a preemption: of the lowest priority; Kueue suspends a
job again that somebody else resumes.
"""

from runspec_emulators.kubernetes.emulator import Kubernetes
from runspec_emulators.kubernetes.settings import Settings

__all__ = ["Kubernetes", "Settings"]
