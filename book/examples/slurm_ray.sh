#!/usr/bin/env bash
# A run on a Ray that lives as long as a Slurm job. From the checkout on the shared disk, with the environment active:
#   sbatch book/examples/slurm_ray.sh articles questions.jsonl runs/big
# The model servers run elsewhere; the profile names their addresses. This script has not been run under Slurm.
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --gpus-per-task=4
#SBATCH --time=24:00:00
set -euo pipefail
source=$1 questions=$2 out=$3
export RAY_USAGE_STATS_ENABLED=0 RAY_worker_niceness=0

head=$(hostname --ip-address | awk '{print $1}')
start=(ray start --num-cpus "$SLURM_CPUS_PER_TASK" --num-gpus 4 --block)
srun --nodes=1 --ntasks=1 --nodelist "$(hostname)" "${start[@]}" --head --node-ip-address "$head" --port 6379 \
  --include-dashboard=false &
sleep 30
if [ "$SLURM_NNODES" -gt 1 ]; then
  srun --nodes=$((SLURM_NNODES - 1)) --ntasks=$((SLURM_NNODES - 1)) --exclude "$(hostname)" "${start[@]}" --address "$head:6379" &
  sleep 30
fi

# A job that ends early goes on where it stopped when it is submitted again.
medvrag run --profile cluster --ray "$head:6379" --source "$source" --questions "$questions" --out "$out"
