#!/bin/sh
# Judges for a front as one job of Slurm: a judge for each task, with one card each (docs/machines.md).
#
#   sbatch recipes/cluster/judges/slurm.sh http://10.0.0.1:8421 --node-token node-token --target cuda
#   sbatch --ntasks=16 --partition=cards recipes/cluster/judges/slurm.sh …      another number, another partition
#
# What follows the URL goes to `khost serve --judge`. Slurm runs a copy of this file, so KHOST names the program by its path
# on the nodes; "khost" is looked for in PATH otherwise. The end of one judge ends no other, and is no end of the job.
# `scancel --signal=TERM` ends the judges, each with what it has begun; `scancel` alone kills them after the KillWait of
# slurm.conf, and the front gives what they had to others.
#SBATCH --job-name=khost-judges
#SBATCH --ntasks=4
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=16
set -eu
[ $# -gt 0 ] || {
  echo "slurm.sh: the URL that a front prints is missing" >&2
  exit 2
}
exec srun --label --kill-on-bad-exit=0 --wait=0 "${KHOST:-khost}" serve --judge "$@"
