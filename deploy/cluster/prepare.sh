#!/bin/sh
# What compose runs before the services of the cluster: known images are skipped, so it may run at every start.
set -eu
cbir index /images --collection "$COLLECTION" || [ $? -eq 3 ] # 3: some images cannot be read
if ! cbir admin token list | grep -q ' valid '; then
    echo "there is no valid token: docker compose -f deploy/compose-cluster.yaml --project-directory . \
run --rm --no-deps cbir-1 token create --scope admin" >&2
    exit 1
fi
