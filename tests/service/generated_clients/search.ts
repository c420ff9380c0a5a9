// Searches by file and by id with the types of openapi-typescript; prints the ids of the results as JSON.

import { readFileSync } from "node:fs";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

const [address, picture, imageId] = process.argv.slice(2) as [string, string, string];
const client = createClient<paths>({ baseUrl: address });

function idsOf(answer: components["schemas"]["Answer"] | undefined, error: components["schemas"]["ProblemDetails"] | undefined): string[] {
  if (!answer) throw new Error(JSON.stringify(error));
  return answer.results.map((hit) => hit.image_id);
}

const path = { collection: (await client.GET("/v1/collections")).data!.default };
const one: components["schemas"]["SearchById"] = { image_id: imageId, k: 3 };
const byId = await client.POST("/v1/collections/{collection}/search", { params: { path }, body: one });
const vector = await client.GET("/v1/collections/{collection}/images/{image_id}/vector", {
  params: { path: { ...path, image_id: imageId }, query: { raw: true } },
});
const other: components["schemas"]["SearchByVector"] = { vector: vector.data!.items[0]!.values, k: 1 };
const batch = await client.POST("/v1/collections/{collection}/search/batch", { params: { path }, body: { queries: [one, other] } });
const found = batch.data!.items.map((item) => item.answer!.results.length);
if (found.join() !== "3,1") throw new Error(`the batch found ${found}`);
const explained = await client.POST("/v1/collections/{collection}/explain", { params: { path }, body: { image_id: imageId, answers: [imageId] } });
if (explained.error) throw new Error(JSON.stringify(explained.error));
const byFile = await client.POST("/v1/collections/{collection}/search", {
  params: { path },
  body: { image: [new Blob([readFileSync(picture)])], k: 3 },
  bodySerializer(body) {
    const form = new FormData();
    for (const [name, values] of Object.entries(body as object)) {
      for (const value of [values].flat()) form.append(name, value instanceof Blob ? value : String(value));
    }
    return form;
  },
});
console.log(JSON.stringify([idsOf(byId.data, byId.error), idsOf(byFile.data, byFile.error)]));
