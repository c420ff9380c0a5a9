#!/bin/sh
# What compose runs before the service: a service that cannot start would be started again and again.
set -eu
collection=/data/collection
# Neither an alias, nor a collection, nor the copy that the service searches in place of a damaged one. Where only other
# files are left of a collection, `cbir index` refuses and says what restores it.
if [ ! -f "$collection" ] && [ ! -s "$collection/collection.sqlite" ] && [ ! -d "$collection/last-good" ]; then
    cbir index /images --collection "$collection" || [ $? -eq 3 ] # 3: some images cannot be read
fi
if [ -n "${CBIR_TLS_CERTIFICATE:-}" ] && ! cbir admin token list | grep -q ' valid '; then
    echo "there is no valid token: docker compose run --rm --no-deps cbir admin token create --scope search" >&2
    exit 1
fi
