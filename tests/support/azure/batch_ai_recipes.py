"""Files in the shapes of the public recipes for Batch AI, each written for these tests."""

from __future__ import annotations

from typing import Any

JOB = "$AZ_BATCHAI_JOB_MOUNT_ROOT"
ALL = "$AZ_BATCHAI_MOUNT_ROOT"
SCHEMA = "https://raw.githubusercontent.com/Azure/BatchAI/master/schemas/2018-05-01/job.json"
KEY = "A" * 40 + "b" * 46 + "=="
GAP = "https://<AZURE_BATCHAI_STORAGE_ACCOUNT>.file.core.windows.net/{}"


def share(name: str, **more: Any) -> dict[str, Any]:
    return {"azureFileUrl": GAP.format(name), "relativeMountPath": name, **more}


def blobs(name: str, **more: Any) -> dict[str, Any]:
    gap = "<AZURE_BATCHAI_STORAGE_ACCOUNT>"
    return {"accountName": gap, "containerName": name, "relativeMountPath": name, **more}


HANDS_ON: dict[str, Any] = {
    "$schema": SCHEMA,
    "properties": {
        "nodeCount": 2,
        "chainerSettings": {
            "processCount": 2,
            "pythonScriptFilePath": f"{JOB}/scripts/chainer/train_mnist.py",
            "commandLineArgs": "-g -o $AZ_BATCHAI_OUTPUT_MODEL",
        },
        "stdOutErrPathPrefix": f"{JOB}/logs",
        "mountVolumes": {
            "azureFileShares": [
                {
                    "azureFileUrl": "https://acct.file.core.windows.net/logs",
                    "relativeMountPath": "logs",
                }
            ],
            "azureBlobFileSystems": [
                {
                    "accountName": "acct",
                    "containerName": name,
                    "credentials": {"accountKey": KEY},
                    "relativeMountPath": name,
                }
                for name in ("scripts", "data")
            ],
        },
        "outputDirectories": [{"id": "MODEL", "pathPrefix": f"{JOB}/data"}],
        "containerSettings": {
            "imageSourceRegistry": {"image": "batchaitraining/chainermn:openMPI"}
        },
    },
}


def job(settings: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A job of a recipe: scripts and logs on a share, the data in a container."""
    volumes = {
        "azureFileShares": [share("logs"), share("scripts")],
        "azureBlobFileSystems": [blobs("data")],
    }
    found: dict[str, Any] = {
        "nodeCount": 1,
        **settings,
        "stdOutErrPathPrefix": f"{JOB}/logs",
        "mountVolumes": volumes,
        "inputDirectories": [
            {"id": "SCRIPTS", "path": f"{JOB}/scripts/net"},
            {"id": "DATASET", "path": f"{JOB}/data/mnist"},
        ],
        "outputDirectories": [{"id": "MODEL", "pathPrefix": f"{JOB}/logs", "pathSuffix": "Models"}],
        "containerSettings": {"imageSourceRegistry": {"image": "repository/image:1.0"}},
        **more,
    }
    return {"$schema": SCHEMA, "properties": found}


SCRIPT = "$AZ_BATCHAI_INPUT_SCRIPTS/train.py"
ARGS = "--data $AZ_BATCHAI_INPUT_DATASET --out $AZ_BATCHAI_OUTPUT_MODEL"
NFS = {"fileServer": {"id": "/subscriptions/1/x/fileservers/nfs"}, "relativeMountPath": "nfs"}
RECIPES: dict[str, dict[str, Any]] = {
    "hands-on": HANDS_ON,
    "chainer": job(
        {
            "chainerSettings": {
                "pythonScriptFilePath": SCRIPT,
                "commandLineArgs": ARGS,
                "processCount": 4,
            }
        },
        nodeCount=2,
    ),
    "horovod": job(
        {
            "horovodSettings": {
                "pythonScriptFilePath": SCRIPT,
                "pythonInterpreterPath": "/opt/conda/bin/python",
                "processCount": 2,
            }
        },
        nodeCount=2,
        jobPreparation={
            "commandLine": "apt update; apt install mpi-default-dev -y; pip install horovod"
        },
    ),
    "pytorch": job(
        {
            "pyTorchSettings": {
                "pythonScriptFilePath": SCRIPT,
                "commandLineArgs": "--epochs 1 --dist-url $AZ_BATCHAI_PYTORCH_INIT_METHOD",
                "communicationBackend": "gloo",
            }
        },
        nodeCount=2,
    ),
    "tensorflow": job(
        {
            "tensorFlowSettings": {
                "pythonScriptFilePath": SCRIPT,
                "masterCommandLineArgs": "--job_name=worker --ps_hosts=$AZ_BATCHAI_PS_HOSTS",
                "workerCommandLineArgs": "--job_name=worker --task_index=$AZ_BATCHAI_TASK_INDEX",
                "parameterServerCommandLineArgs": "--job_name=ps --num_gpus=0",
                "workerCount": 2,
                "parameterServerCount": 1,
            }
        },
        nodeCount=2,
    ),
    "cntk in python": job(
        {
            "cntkSettings": {
                "languageType": "Python",
                "pythonScriptFilePath": SCRIPT,
                "commandLineArgs": "--datadir $AZ_BATCHAI_INPUT_DATASET",
                "processCount": 2,
            }
        },
        nodeCount=2,
    ),
    "cntk in brainscript": job(
        {
            "cntkSettings": {
                "languageType": "BrainScript",
                "configFilePath": "$AZ_BATCHAI_INPUT_SCRIPTS/ConvNet_MNIST.cntk",
                "commandLineArgs": "RootDir=$AZ_BATCHAI_OUTPUT_MODEL parallelTrain=true",
            }
        }
    ),
    "caffe": job(
        {
            "caffeSettings": {
                "configFilePath": "$AZ_BATCHAI_INPUT_SCRIPTS/lenet_solver.prototxt",
                "commandLineArgs": "--gpu all",
                "processCount": 1,
            }
        }
    ),
    "caffe2": job(
        {"caffe2Settings": {"pythonScriptFilePath": SCRIPT, "commandLineArgs": "--batch 10"}}
    ),
    "custom mpi": job(
        {"customMpiSettings": {"commandLine": f"python {SCRIPT} --x", "processCount": 3}},
        nodeCount=2,
    ),
    "custom": job(
        {
            "customToolkitSettings": {
                "commandLine": f"cd {JOB}/scripts && python train.py | tee log.txt"
            }
        },
        environmentVariables=[{"name": "EPOCHS", "value": "20"}],
        schedulingPriority="high",
        constraints={"maxWallClockTime": "P1DT30M"},
    ),
    "every mount": job(
        {"customToolkitSettings": {"commandLine": "true"}},
        mountVolumes={
            "azureFileShares": [
                share("logs", fileMode="0755", directoryMode="0755"),
                {
                    "accountName": "other",
                    "azureFileUrl": "https://other.file.core.windows.net/Share",
                    "credentials": {"accountKey": KEY.replace("b", "c")},
                    "relativeMountPath": "Other_Share",
                },
                share("scripts"),
            ],
            "azureBlobFileSystems": [blobs("data", mountOptions="-o attr_timeout=240")],
            "fileServers": [{**NFS, "sourceDirectory": "data", "mountOptions": "rw"}],
            "unmanagedFileSystems": [
                {"mountCommand": "mount -t glusterfs 10.0.0.4:/vol", "relativeMountPath": "gluster"}
            ],
        },
    ),
    "secrets": job(
        {"customToolkitSettings": {"commandLine": "true"}},
        containerSettings={
            "imageSourceRegistry": {
                "serverUrl": "https://reg.example",
                "image": "i:1",
                "credentials": {"username": "me", "password": "the-registry-password"},
            },
            "shmSize": "2g",
        },
        secrets=[
            {"name": "HF_TOKEN", "value": "the-secret-token"},
            {
                "name": "FROM_VAULT",
                "valueSecretReference": {
                    "sourceVault": {"id": "/subscriptions/1/vaults/kv"},
                    "secretUrl": "https://kv.vault.azure.net/secrets/t",
                },
            },
        ],
    ),
    "a cluster of its own": job(
        {"customToolkitSettings": {"commandLine": "true"}},
        cluster={
            "id": "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg/providers/"
            "Microsoft.BatchAI/workspaces/ws/clusters/nc6"
        },
        inputDirectories=[{"id": "Data", "path": f"{ALL}/nfs/data"}],
        outputDirectories=[{"id": "Out", "pathPrefix": f"{ALL}/nfs", "pathSuffix": "x"}],
    ),
}
CLUSTERS: dict[str, dict[str, Any]] = {
    "low priority, autoscale": {
        "properties": {
            "vmSize": "STANDARD_NC6",
            "vmPriority": "lowpriority",
            "scaleSettings": {
                "autoScale": {"minimumNodeCount": 0, "maximumNodeCount": 4, "initialNodeCount": 1}
            },
            "userAccountSettings": {
                "adminUserName": "me",
                "adminUserSshPublicKey": "ssh-rsa AAAA me@there",
                "adminUserPassword": "the-admin-password",
            },
        }
    },
    "fixed, with all there is": {
        "properties": {
            "vmSize": "Standard_NC24",
            "vmPriority": "dedicated",
            "scaleSettings": {
                "manual": {"targetNodeCount": 2, "nodeDeallocationOption": "terminate"}
            },
            "virtualMachineConfiguration": {
                "imageReference": {"publisher": "p", "offer": "o", "sku": "s", "version": "latest"}
            },
            "nodeSetup": {
                "setupTask": {
                    "commandLine": "bash setup.sh",
                    "environmentVariables": [{"name": "A", "value": "1"}],
                    "secrets": [{"name": "S", "value": "the-setup-secret"}],
                    "stdOutErrPathPrefix": f"{ALL}/files",
                },
                "mountVolumes": {"azureFileShares": [share("files")], "fileServers": [NFS]},
                "performanceCountersSettings": {
                    "appInsightsReference": {
                        "component": {"id": "/subscriptions/1/components/c"},
                        "instrumentationKey": "the-instrumentation-key",
                    }
                },
            },
            "userAccountSettings": {"adminUserName": "me", "adminUserSshPublicKey": "ssh-rsa AAAA"},
            "subnet": {"id": "/subscriptions/1/subnets/s"},
        }
    },
}
