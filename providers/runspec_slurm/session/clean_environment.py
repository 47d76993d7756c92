"""The environment of Slurm's commands, without the caller's own settings for Slurm."""

from __future__ import annotations

# A plan is carried out exactly, so the caller's variables must not change it: sbatch(1), INPUT ENVIRONMENT VARIABLES.
# The PATH of a shell without a login does not contain the folder in which ParallelCluster has Slurm.
CLEAN = """\
case $(export -p) in
*SLURM_[!CJ]*|*SLURM_J[!W]*|*SLURM_C[!LO]*|*SLURM_CO[!N]*|*SLURM_CLUSTER_*|*SBATCH_*|*SQUEUE_*|*SCANCEL_*|*SACCT_*|\
*SINFO_*|*SCONTROL_*|*SALLOC_*|*SRUN_*)
for v in $(env | sed -n 's/^\\(S[A-Z]*_[A-Za-z0-9_]*\\)=.*/\\1/p'); do
case $v in
SLURM_CONF|SLURM_CONF_SERVER|SLURM_JWT|SLURM_CLUSTERS) ;;
SLURM_*|SBATCH_*|SQUEUE_*|SCANCEL_*|SACCT_*|SINFO_*|SCONTROL_*|SALLOC_*|SRUN_*) unset "$v" ;;
esac
done ;;
esac
command -v squeue >/dev/null 2>&1 || PATH=$PATH:/opt/slurm/bin:/usr/local/slurm/bin:/usr/local/bin
export PATH LC_ALL=C SLURM_TIME_FORMAT=%s SLURM_BITSTR_LEN=0
"""
