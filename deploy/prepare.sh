#!/bin/sh
# What compose runs before the service: a service that cannot start would be started again and again.
set -eu
collection=/data/collection
if [ ! -f "$collection" ] && [ ! -f "$collection/collection.sqlite" ]; then # an alias, or a collection
    cbir index /images --collection "$collection" || [ $? -eq 3 ]           # 3: some images cannot be read
fi
if [ -n "${CBIR_TLS_CERTIFICATE:-}" ] && ! cbir token list | grep -q ' valid '; then
    echo "there is no valid token: docker compose run --rm --no-deps cbir token create --scope search" >&2
    exit 1
fi
