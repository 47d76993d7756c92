"""The configuration of a cluster, version 3, as a plain mapping, computed from the spec and the options.

https://docs.aws.amazon.com/parallelcluster/latest/ug/cluster-configuration-file-v3.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_ec2 import VOLUMES
from runspec_parallelcluster.decision import Decision, QueueChoice
from runspec_parallelcluster.naming import REQUEST_TAG, TAG, digest
from runspec_parallelcluster.options import ParallelClusterOptions, Queue, Storage
from runspec_parallelcluster.resources import known, size

CAPACITY = {"on-demand": "ONDEMAND", "spot": "SPOT", "capacity-block": "CAPACITY_BLOCK"}
STRATEGY = {"drain": "DRAIN", "terminate": "TERMINATE", "stop": "COMPUTE_FLEET_STOP"}
POLICY = ["NEW", "CHANGED", "DELETED"]


def name(decision: Decision) -> str:
    """Return the name of the cluster: that of the profile, the host if only that is set, or one from a digest."""
    options = decision.options
    if not options.manage and options.host:
        return options.cluster or options.host
    return options.cluster or f"runspec-{_digest_by_size(decision)[:12]}"


def configuration(decision: Decision) -> dict[str, Any]:
    """Return the complete configuration, with tags by which a cluster can be compared with it.

    They are equal for instance types of one size, and for the same request, so that a new catalogue, which chooses
    other types, changes no cluster.
    """
    options, choices = decision.options, decision.queues
    tags = {
        **options.tags,
        TAG: _digest_by_size(decision),
        REQUEST_TAG: digest(_plain(options, {n: _by_request(c) for n, c in choices.items()})),
    }
    plain = _plain(options, {n: choice.queue for n, choice in choices.items()})
    return {**plain, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}


def _digest_by_size(decision: Decision) -> str:
    queues = {n: _by_size(choice) for n, choice in decision.queues.items()}
    return digest(_plain(decision.options, queues))


def _by_size(choice: QueueChoice) -> Queue:
    """Return the queue with a size in place of the instance types that the rule chooses.

    It is equal for two catalogues that choose different types of one size.
    """
    types = choice.queue.instance_types
    first = known(types[0]) if types and choice.is_by_rule else None
    return choice.queue if first is None else _with_types(choice.queue, size(first))


def _by_request(choice: QueueChoice) -> Queue:
    """Return the queue with the request in place of the instance types that the rule chooses for it."""
    if not choice.is_by_rule:
        return choice.queue
    # Clusters of earlier versions have no memory of GPUs in the digest.
    last = None if choice.request.gpu_gib else -1
    return _with_types(choice.queue, str(tuple(choice.request)[:last]))


def _with_types(queue: Queue, *types: str) -> Queue:
    return queue.model_copy(update={"instance_types": types})


def _plain(options: ParallelClusterOptions, queues: Mapping[str, Queue]) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "Region": options.region or "",
        "Image": _given(Os=options.os, CustomAmi=options.custom_ami),
        "HeadNode": _head(options),
        "Scheduling": {
            "Scheduler": "slurm",
            "SlurmSettings": {
                "ScaledownIdletime": options.idle_minutes,
                "QueueUpdateStrategy": STRATEGY[options.update],
                **({"EnableMemoryBasedScheduling": True} if options.memory_scheduling else {}),
                **_given(CustomSlurmSettings=[{k: v} for k, v in options.slurm_settings.items()]),
            },
            "SlurmQueues": [_queue(name, queue, options) for name, queue in queues.items()],
        },
    }
    if options.storage:
        plain["SharedStorage"] = [_storage(name, s) for name, s in options.storage.items()]
    if options.bucket:
        plain["CustomS3Bucket"] = options.bucket
    if options.tags:
        plain["Tags"] = [{"Key": key, "Value": value} for key, value in options.tags.items()]
    return plain


def _given(**values: Any) -> dict[str, Any]:
    """Return *values* without empty ones, for which the library has defaults."""
    return {key: value for key, value in values.items() if value not in (None, (), {}, [])}


def _head(options: ParallelClusterOptions) -> dict[str, Any]:
    subnet = options.head_subnet or next(iter(options.subnets), "")
    return {
        "InstanceType": options.head_node,
        "Networking": {
            "SubnetId": subnet,
            **_given(AdditionalSecurityGroups=list(options.security_groups)),
        },
        **_given(
            Ssh=_given(KeyName=options.key_pair, AllowedIps=options.ssh_from), Iam=_iam(options)
        ),
    }


def _iam(options: ParallelClusterOptions) -> dict[str, Any]:
    access = [{"BucketName": b, "EnableWriteAccess": True} for b in options.s3_access]
    return {"S3Access": access} if access else {}


def _queue(name: str, queue: Queue, options: ParallelClusterOptions) -> dict[str, Any]:
    several = len(queue.instance_types) > 1
    spot = queue.capacity == "spot"
    subnets = list(queue.subnets or options.subnets)
    group = placement(queue)
    kind = VOLUMES[queue.disk_tier].fields if queue.disk_tier else {}
    volume = {**_given(Size=queue.disk_gib), **kind}
    disk = {"LocalStorage": {"RootVolume": volume}} if volume else {}
    target = _given(
        CapacityReservationId=queue.reservation,
        CapacityReservationResourceGroupArn=queue.reservation_group,
    )
    return {
        "Name": name,
        "CapacityType": CAPACITY[queue.capacity],
        **({"AllocationStrategy": "capacity-optimized"} if spot and several else {}),
        "ComputeResources": [_machines(queue)],
        "Networking": {
            "SubnetIds": subnets,
            **_given(PlacementGroup=group, AdditionalSecurityGroups=list(options.security_groups)),
        },
        **_given(
            CapacityReservationTarget=target,
            ComputeSettings=disk,
            Image=_given(CustomAmi=queue.ami),
            Iam=_iam(options),
            CustomSlurmSettings=dict(queue.settings),
        ),
    }


def placement(queue: Queue) -> dict[str, Any]:
    """Return the settings of the placement group, which the library requires in any case with EFA."""
    if queue.placement_group:
        return {"Enabled": True, "Name": queue.placement_group}
    if queue.placement or queue.efa:
        return {"Enabled": queue.placement}
    return {}


def _machines(queue: Queue) -> dict[str, Any]:
    efa = {"Enabled": True, **({"GdrSupport": True} if queue.gdr else {})} if queue.efa else {}
    kinds: dict[str, Any] = {"Instances": [{"InstanceType": t} for t in queue.instance_types]}
    if queue.reservation:  # has one instance type, for which the library requires this key
        kinds = {"InstanceType": next(iter(queue.instance_types), "")}
    return {
        "Name": resource(queue),
        **kinds,
        "MinCount": queue.min_count,
        "MaxCount": queue.max_count,
        **_given(SpotPrice=queue.spot_price, Efa=efa),
    }


def resource(queue: Queue) -> str:
    """Return the name of the compute resource of a queue, which contains the first instance type.

    With another type, an update adds a compute resource, which is possible while machines run, and changes none.

    >>> resource(Queue(instance_types=("p3.8xlarge",)))
    'p3-8xlarge'
    """
    first = next(iter(queue.instance_types), "none")
    return first.replace(".", "-").lower()[:25]


def _storage(name: str, storage: Storage) -> dict[str, Any]:
    return {
        "Name": name,
        "MountDir": storage.mount,
        "StorageType": "FsxLustre",
        "FsxLustreSettings": _lustre(storage),
    }


def _lustre(storage: Storage) -> Mapping[str, Any]:
    """Return the settings of a file system, which stays when its cluster is deleted if its policy is Retain.

    https://docs.aws.amazon.com/parallelcluster/latest/ug/SharedStorage-v3.html
    """
    if storage.file_system:
        return {"FileSystemId": storage.file_system}
    common = _given(
        StorageCapacity=storage.size_gib,
        DataCompressionType="LZ4" if storage.compression else None,
        DeletionPolicy="Retain" if storage.keep else None,
    )
    if storage.kind == "persistent":
        request = {**common, "DeploymentType": "PERSISTENT_2"}
        request |= _given(PerUnitStorageThroughput=storage.throughput)
        return {**request, **_given(DataRepositoryAssociations=_associations(storage))}
    request = {**common, "DeploymentType": "SCRATCH_2"}
    if storage.data:
        # Exports go to the prefix of the imports, so that the next cluster starts with the data.
        # https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html
        request |= {
            "ImportPath": storage.data,
            "ExportPath": storage.data,
            "AutoImportPolicy": "NEW_CHANGED",
        }
    return request


def _associations(storage: Storage) -> list[dict[str, Any]]:
    """Return the links to S3: https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html"""
    if not storage.data:
        return []
    return [
        {
            "Name": "data",
            "FileSystemPath": "/",
            "DataRepositoryPath": storage.data,
            "BatchImportMetaDataOnCreate": True,
            "AutoImportPolicy": POLICY,
            "AutoExportPolicy": POLICY,
        }
    ]
