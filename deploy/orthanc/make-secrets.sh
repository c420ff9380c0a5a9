#!/bin/sh
# Make the passwords of deploy/compose-orthanc.yaml in the folder $1, each once. Services of other users read the files;
# nobody else sees the volume.
set -eu
cd "$1"
for name in database_password orthanc_password; do
    [ -s "$name" ] || { head -c 24 /dev/urandom | base64 | tr -d '/+=\n' >"$name.new" && mv "$name.new" "$name"; }
done
printf '{"RegisteredUsers": {"cbir": "%s"}}\n' "$(cat orthanc_password)" >orthanc.json
chmod 444 database_password orthanc_password orthanc.json
