"""The settings of the Kubernetes provider."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import Field, model_validator

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import Options
from runspec_jobs.provider.settings import (
    Anyone,
    Key,
    LocalSecret,
    Model,
    Seconds,
    Truth,
    User,
    Word,
    text_like,
)

# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
NAMESPACE = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
SUBDOMAIN = r"(?=.{1,253}(/|$))[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
OBJECT = rf"^{SUBDOMAIN}$"
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
QUALIFIED = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
LABEL = rf"^({SUBDOMAIN}/)?{QUALIFIED}$"
VALUE = rf"^({QUALIFIED})?$"
# https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources
RESOURCE = rf"^{SUBDOMAIN}/{QUALIFIED}$"
PREFIX = r"[A-Za-z0-9!_.*'()-]+(/[A-Za-z0-9!_.*'()-]+)*"
STORE = (
    rf"^(s3://[a-z0-9][a-z0-9.-]{{1,61}}[a-z0-9]/{PREFIX}"
    rf"|az://[a-z0-9]{{3,24}}/[a-z0-9][a-z0-9-]{{2,62}}/{PREFIX}"
    rf"|pvc:{SUBDOMAIN})$"
)
CLAIM = rf"^pvc:{SUBDOMAIN}$"
REGION = r"^[a-z]{2,4}(-[a-z]+)+-[0-9]+$"

Object = Annotated[
    str,
    *text_like(
        OBJECT, "the name of an object of Kubernetes", "write lower-case letters, digits, - and ."
    ),
]
Namespace = Annotated[
    str, *text_like(NAMESPACE, "a namespace", "write lower-case letters, digits and -")
]
Label = Annotated[str, *text_like(LABEL, "the key of a label", "write NAME or example.org/NAME")]
LabelValue = Annotated[
    str, *text_like(VALUE, "the value of a label", "write at most 63 letters, digits, -, _ and .")
]
StoreUrl = Annotated[
    str,
    *text_like(
        STORE,
        "a store",
        "write s3://BUCKET/PREFIX, az://ACCOUNT/CONTAINER/PREFIX or pvc:CLAIM",
    ),
]
Claim = Annotated[str, *text_like(CLAIM, "a volume claim", "write pvc:NAME")]
Resource = Annotated[
    str,
    *text_like(RESOURCE, "a resource of a device plugin", "write one such as nvidia.com/gpu"),
]
Queue = Annotated[
    str,
    *text_like(NAMESPACE, "a local queue of Kueue", "write lower-case letters, digits and -"),
]
Region = Annotated[str, *text_like(REGION, "a region", "write one such as eu-central-1")]
Labels = Mapping[Label, LabelValue]
StoreKey = Literal[
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_KEY"
]
*S3_KEYS, AZURE_KEY = get_args(StoreKey)


class Toleration(Model):
    """A taint of nodes that the pods of a job tolerate, in the words of Kubernetes.

    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    """

    key: Anyone[Label | None] = Field(
        default=None, description="Key of the taint; without it, all keys."
    )
    operator: Anyone[Literal["Exists", "Equal"]] = Field(
        default="Exists", description="`Exists` for every value, `Equal` for that of `value`."
    )
    value: Anyone[LabelValue | None] = Field(default=None, description="Value of the taint.")
    effect: Anyone[Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None] = Field(
        default=None, description="Effect of the taint; without it, all effects."
    )

    @model_validator(mode="after")
    def _check_operator(self) -> Self:
        if self.operator == "Exists" and self.value:
            raise ValueError(
                "operator: Exists is for any value; write operator: Equal, or no value"
            )
        if self.operator == "Equal" and self.key is None:
            raise ValueError("operator: Equal needs a key")
        return self

    @property
    def body(self) -> dict[str, str]:
        """The toleration as a pod has it."""
        return self.model_dump(exclude_none=True)


class Spot(NamedTuple):
    """How a service marks the nodes that it may reclaim: a label, and the taint that they may have."""

    label: str
    value: str
    taint: str


# https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
# https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html#managed-node-group-capacity-types
# https://learn.microsoft.com/azure/aks/spot-node-pool
# https://karpenter.sh/docs/concepts/scheduling/
SPOT: Mapping[str, Spot] = {
    "gke": Spot("cloud.google.com/gke-spot", "true", "cloud.google.com/gke-spot"),
    "eks": Spot("eks.amazonaws.com/capacityType", "SPOT", "eks.amazonaws.com/capacityType"),
    "aks": Spot(
        "kubernetes.azure.com/scalesetpriority", "spot", "kubernetes.azure.com/scalesetpriority"
    ),
    "karpenter": Spot("karpenter.sh/capacity-type", "spot", "karpenter.sh/capacity-type"),
}


class KubernetesOptions(Options):
    """Settings of `kubernetes`, under `providers` in a profile. A spec may set the fields marked `anyone`."""

    places: ClassVar[str | None] = (
        "write providers: {kubernetes: {node_selector: {topology.kubernetes.io/zone: ZONE}}}, the label of the nodes"
    )
    kubeconfig: User[Word | None] = Field(
        default=None,
        description="Kubeconfig to use. Without it, the files of `KUBECONFIG`, or ~/.kube/config, or in a pod its "
        "service account.",
    )
    context: User[Word | None] = Field(
        default=None, description="Context of the kubeconfig; without it, the current one."
    )
    namespace: User[Namespace] = Field(
        default="default", description="Existing namespace of all objects that runspec makes."
    )
    image: Anyone[Word] = Field(
        default="docker.io/library/python:3.11-slim",
        description="Image for jobs whose spec names none.",
    )
    store: User[StoreUrl | None] = Field(
        default=None,
        description="Where jobs read inputs and save outputs: `s3://BUCKET/PREFIX`, `az://ACCOUNT/CONTAINER/PREFIX`, "
        "or `pvc:CLAIM`, an existing volume claim that several nodes can write to. Jobs without mounts, outputs and "
        "several nodes need none.",
    )
    region: Anyone[Region | None] = Field(default=None, description="AWS region of an S3 store.")
    store_url: User[Word | None] = Field(
        default=None, description="URL of the service of the store, if it is not AWS or Azure."
    )
    store_keys: User[Mapping[StoreKey, LocalSecret]] = Field(
        default={},
        description="Credentials with which jobs and this machine reach the store: "
        "`{AWS_ACCESS_KEY_ID: env:NAME, AWS_SECRET_ACCESS_KEY: env:NAME}`, or `{AZURE_STORAGE_KEY: env:NAME}`, the key "
        "of the account, of which jobs get a signature for the container. Without them, jobs use the identity of "
        "`service_account`, and this machine its own login.",
    )
    service_account: User[Object | None] = Field(
        default=None,
        description="Service account of the pods, which may have an identity at the cloud.",
    )
    queue: Anyone[Queue | None] = Field(
        default=None,
        description="Local queue of Kueue. The Job is made suspended, and Kueue starts it.",
    )
    priority_class: Anyone[Object | None] = Field(
        default=None, description="Priority class of the pods."
    )
    node_selector: Anyone[Labels] = Field(
        default={}, description="Labels that the nodes of the job must have."
    )
    tolerations: Anyone[tuple[Toleration, ...]] = Field(
        default=(), description="Taints of nodes that the job tolerates."
    )
    cloud: Anyone[Literal["gke", "eks", "aks", "karpenter"] | None] = Field(
        default=None,
        description="What runs the nodes, which decides by which label and taint `capacity: spot` is asked for.",
    )
    gpu_types: User[Mapping[Word, Labels]] = Field(
        default={},
        description="For `gpu_type`, the labels of nodes with such GPUs: "
        "`{A100: {cloud.google.com/gke-accelerator: nvidia-tesla-a100}}`.",
    )
    gpu_resource: Anyone[Resource] = Field(
        default="nvidia.com/gpu",
        description="Resource that `gpus` counts, such as `amd.com/gpu` or `aws.amazon.com/neuron`.",
    )
    pull_secrets: User[tuple[Object, ...]] = Field(
        default=(), description="Existing secrets with logins to registries of images."
    )
    shared: User[Mapping[Key, Claim]] = Field(
        default={}, description="Volume claims behind `shared://NAME`: `pvc:CLAIM`."
    )
    security: User[Literal["restricted", "none"]] = Field(
        default="restricted",
        description="`restricted`: pods fulfil the pod security standard of that name, and run as `user`. `none`: they "
        "run as the image says.",
    )
    user: Anyone[Annotated[int, Field(ge=1, le=2**31 - 1)]] = Field(
        default=1000, description="User and group in the container, with `security: restricted`."
    )
    labels: Anyone[Labels] = Field(
        default={}, description="Labels for the objects that runspec makes."
    )
    annotations: User[Mapping[Label, Word]] = Field(
        default={}, description="Annotations for the pods."
    )
    keep: Anyone[Seconds | None] = Field(
        default=None,
        description="How long Kubernetes keeps a Job that has ended (`ttlSecondsAfterFinished`), unless the spec sets "
        "`ttl`. Without it, until `destroy`.",
    )
    price: User[Annotated[float, Field(ge=0)] | None] = Field(
        default=None, description="Price of a node per hour in US dollars, for `plan` and `cost`."
    )
    spot_price: User[Annotated[float, Field(ge=0)] | None] = Field(
        default=None, description="The same of a node of `capacity: spot`."
    )
    host_network: User[Truth] = Field(
        default=False, description="Whether pods use the network of their node."
    )


PROFILE_TEMPLATE = """\
# Settings of your clusters and accounts. Job files do not contain them.
providers:
  kubernetes:
    # context: kind-kind              # of your kubeconfig; without it, the current one
    namespace: default
    # Where jobs read inputs and save outputs; jobs without mounts and outputs need none:
    # store: s3://my-bucket/runspec   # or az://ACCOUNT/CONTAINER/runspec, or pvc:CLAIM
    # region: eu-central-1
    # store_keys: {AWS_ACCESS_KEY_ID: "env:AWS_ACCESS_KEY_ID", AWS_SECRET_ACCESS_KEY: "env:AWS_SECRET_ACCESS_KEY"}
    # service_account: runspec-job    # with an identity at the cloud, instead of store_keys
    # queue: my-queue                 # a local queue of Kueue
    # cloud: gke                      # gke, eks, aks or karpenter, for capacity: spot
    # secrets: {hf: env:HF_TOKEN}
"""
