"""The profile that `runspec init --provider slurm` writes, to be filled in."""

PROFILE = """\
# Settings of a cluster, by provider: no job file names them.
providers:
  slurm:
    # The login node, as ssh knows it; leave it out where Slurm's commands are on this machine:
    host: login.example.org
    # ssh_options: [User=me, IdentityFile=~/.ssh/id_ed25519]
    # A folder that the login node and all nodes share. All files of jobs lie there:
    workspace: ~/.runspec
    # partition: gpu                  # instead of the cluster's default; sinfo -s lists them
    # spot_partition: preemptible     # for capacity: spot
    # account: my-project
    # qos: normal
    # gpu_types: {V100: tesla}        # where the cluster has another word for it
    # What runs images: podman, apptainer or pyxis; auto takes what is there:
    # container: auto
    # python: python3                 # of the nodes, 3.6 or newer
    # secrets: {hf: env:HF_TOKEN}
    # shared: {data: /data}           # shared://data/... is that folder on every node
    # sbatch: [--constraint=ib]       # more options of sbatch, word by word
"""
