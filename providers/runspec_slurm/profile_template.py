"""The profile that `runspec init --provider slurm` writes, to be filled in."""

PROFILE = """\
# Settings of your cluster, which job files do not contain.
providers:
  slurm:
    # The login node, as ssh names it; remove this line if Slurm's commands are on this machine:
    host: login.example.org
    # ssh_options: [User=me, IdentityFile=~/.ssh/id_ed25519]
    # A folder that the login node and all nodes share, for all files of jobs:
    workspace: ~/.runspec
    # partition: gpu                  # instead of the cluster's default; sinfo -s lists them
    # spot_partition: preemptible     # for capacity: spot
    # account: my-project
    # qos: normal
    # gpu_types: {V100: tesla}        # the cluster's own name of a GPU type
    # What runs images: podman, apptainer or pyxis; auto uses the one that the cluster has:
    # container: auto
    # python: python3                 # Python of the nodes, 3.6 or newer
    # secrets: {hf: env:HF_TOKEN}
    # A registry that needs a login to pull images; without registry, it is Docker Hub:
    # registry: nvcr.io
    # registry_user: $oauthtoken
    # registry_password: env:NGC_API_KEY
    # shared: {data: /data}           # shared://data/... is this folder on every node
    # sbatch: [--constraint=ib]       # more options of sbatch, one word each
"""
