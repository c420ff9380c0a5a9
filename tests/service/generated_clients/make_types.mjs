// Writes the types of an OpenAPI document, with files as blobs: node make_types.mjs openapi.json schema.d.ts

import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const [source, target] = process.argv.slice(2);
const file = ts.factory.createTypeReferenceNode("Blob");
const types = await openapiTS(pathToFileURL(source), { transform: (schema) => (schema.format === "binary" ? file : undefined) });
writeFileSync(target, astToString(types));
