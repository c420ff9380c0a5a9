#!/bin/sh
# Run once by the PostgreSQL image, when its volume is empty: the role and database of cbir, with pgvector.
set -eu
psql --set ON_ERROR_STOP=1 --set "password=$(cat /run/secrets/database_password)" --username postgres <<'SQL'
CREATE ROLE cbir LOGIN PASSWORD :'password';
CREATE DATABASE cbir ENCODING 'UTF8' TEMPLATE template0;
GRANT CREATE ON DATABASE cbir TO cbir;
\connect cbir
CREATE EXTENSION vector;
SQL
