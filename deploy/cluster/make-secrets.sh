#!/bin/sh
# Make the secrets of compose-cluster.yaml and compose.orthanc.yaml in ./secrets, each once. Containers of other users read
# the files, so the folder is closed instead.
set -eu
umask 077
mkdir -p secrets
new() {
    [ -e "secrets/$1" ] || { openssl rand -hex 32 | tr -d '\n' >"secrets/$1" && chmod 444 "secrets/$1"; }
}
new postgres_password
new database_password
new orthanc_password
new audit_key # also of the chain of the audit log: keep a copy
if [ ! -e secrets/minio.env ]; then
    password=$(openssl rand -hex 32)
    printf 'MINIO_ROOT_USER=milvus\nMINIO_ROOT_PASSWORD=%s\nMINIO_ACCESS_KEY_ID=milvus\nMINIO_SECRET_ACCESS_KEY=%s\n' \
        "$password" "$password" >secrets/minio.env
fi
