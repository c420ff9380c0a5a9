#!/bin/sh
# Add the images of $ARCHIVE, an Orthanc, to $COLLECTION; with --watch go on with those that come.
set -eu
CBIR_DICOMWEB_PASSWORD=$(cat "${SECRETS:-/secrets}/orthanc_password")
export CBIR_DICOMWEB_PASSWORD
if [ "${1:-}" = --watch ]; then
    exec cbir index dicomweb "$ARCHIVE/dicom-web" --collection "$COLLECTION" --watch --every 15 --changes "$ARCHIVE"
fi
# The archive may still be starting, then nothing answers.
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    code=0
    cbir index dicomweb "$ARCHIVE/dicom-web" --collection "$COLLECTION" || code=$?
    case $code in 0 | 3) exit 0 ;; esac # 3: some images cannot be read
    sleep 6
done
exit "$code"
