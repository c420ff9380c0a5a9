#!/usr/bin/env bash
# Measure on a machine with a GPU, in at most eight minutes. In the root of a checkout:
#   bash bench/gpu/run.sh
# With the folder .gpukit of prepare.sh: a machine that has Python 3.12, torch and no network. Without it: this environment.
# $OUT (./gpu-results) gets results.jsonl, log.txt and junit.xml; bench/gpu/report.py makes a page of them.
#   STEPS="environment faiss"  some steps     SMALL=1  a trial on a CPU, with patience     TOTAL=470  seconds     PY=python3
set -u
root=$PWD kit=${KIT:-$PWD/.gpukit} START=$SECONDS
[ -z "${SMALL:-}" ] || TOTAL=${TOTAL:-3600}
PY=${PY:-python3} OUT=${OUT:-$PWD/gpu-results}
mkdir -p "$OUT"
export OUT PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-8} SMALL=${SMALL:-}
exec > >(tee "$OUT/log.txt") 2>&1
: > "$OUT/results.jsonl"
[ -f pyproject.toml ] && [ -d cbir ] || { echo "run.sh: run it in the root of a checkout"; exit 2; }

# What the machine lacks goes into folders of their own, outside of the checkout.
unpack() {
    local site=${SITE:-/tmp/gpukit-site} faiss=${FAISS:-/tmp/gpukit-faiss}
    if [ ! -d "$site" ]; then
        "$PY" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --target "$site" "$kit"/wheels/*.whl || return 1
    fi
    if [ -f "$kit/faiss.tar.xz" ] && [ ! -d "$faiss/faiss" ]; then
        mkdir -p "$faiss"
        "$PY" -c "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter='data')" "$kit/faiss.tar.xz" "$faiss" || return 1
        rm -f "$faiss/nvidia/__init__.py"  # it would hide torch's own packages below nvidia/
    fi
    "$PY" bench/gpu/write_entry_points.py "$site" || return 1
    # a build of FAISS for CUDA 12 that forwards to CUDA 13 looks for torch's cuBLAS
    local cublas
    cublas=$("$PY" -c "import glob, os, sysconfig; found = glob.glob(sysconfig.get_paths()['purelib'] + '/nvidia/**/libcublas.so.13', recursive=True); print(os.path.dirname(found[0]) if found else '')")
    [ -n "$cublas" ] || cublas=$(dirname "$(find / -name libcublas.so.13 -not -path '/proc/*' 2>/dev/null | head -1)")
    export LD_LIBRARY_PATH="$cublas:${LD_LIBRARY_PATH:-}"
    export PYTHONPATH="$faiss:$root:$root/bench:$root/bench/gpu:$site"
    echo "cuBLAS in $cublas"
}
export PYTHONPATH="$root:$root/bench:$root/bench/gpu${PYTHONPATH:+:$PYTHONPATH}"
[ ! -d "$kit/encoders" ] || export CBIR_ENCODER_FOLDER="$kit/encoders"
if [ -d "$kit/wheels" ]; then unpack || { echo "run.sh: the kit cannot be unpacked"; exit 1; }; fi
COMMIT=${COMMIT:-$(git describe --always --dirty 2>/dev/null || cat "$kit/commit" 2>/dev/null || echo unknown)}
DATE=$(date +%F)
export COMMIT DATE
echo "prepared in $((SECONDS - START)) s"

step() {  # name, most seconds, command...: one that hangs costs no other
    local name=$1 limit=$2; shift 2
    case " ${STEPS:-$ALL} " in *" $name "*) ;; *) return ;; esac
    [ -z "$SMALL" ] || limit=$((limit * 6))
    local left=$((${TOTAL:-470} - (SECONDS - START)))
    if [ "$left" -lt 15 ]; then
        echo "{\"step\": \"$name\", \"skipped\": \"no time\"}" >> "$OUT/results.jsonl"; return
    fi
    [ "$limit" -le "$left" ] || limit=$left
    echo "=== $name, at most $limit s"
    local began=$SECONDS
    timeout -k 5 "$limit" "$@"
    local status=$?
    echo "{\"step\": \"$name\", \"exit\": $status, \"seconds\": $((SECONDS - began))}" >> "$OUT/results.jsonl"
    echo "=== $name: exit $status after $((SECONDS - began)) s"
}
ALL="environment tests faiss queries_1m failures description training severity processes queries_10m"
million=1000000 most=10000000
[ -z "$SMALL" ] || { million=30000 most=60000; }
step environment 40 "$PY" bench/gpu/step_environment.py
step tests 90 "$PY" bench/gpu/step_tests.py
step faiss 90 "$PY" bench/gpu/step_faiss.py
step queries_1m 60 "$PY" bench/gpu/step_queries.py $million 20
step failures 60 "$PY" bench/gpu/step_failures.py
step description 45 "$PY" bench/gpu/step_description.py
step training 50 "$PY" bench/gpu/step_training.py
step severity 40 "$PY" bench/gpu/step_severity.py
step processes 40 "$PY" bench/gpu/step_processes.py
step queries_10m 200 "$PY" bench/gpu/step_queries.py $most 20
echo "in all $((SECONDS - START)) s"
cat "$OUT/results.jsonl"
