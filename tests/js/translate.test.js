import assert from "node:assert/strict";
import { test } from "node:test";

import { problemText } from "./static/problems.js";
import { fixed, language, tr, translator, trn } from "./static/translate.js";

const german = translator("de", {
  plurals: { one: 0, other: 1 },
  messages: {
    "Rank {rank} of {count}": ["Rang {rank} von {count}"],
    "{count} image": ["{count} Bild", "{count} Bilder"],
  },
});

test("without a catalogue texts are English", () => {
  assert.equal(language, "en");
  assert.equal(tr("Rank {rank} of {count}", { rank: 3, count: 1200 }), "Rank 3 of 1,200");
  assert.deepEqual([0, 1, 2].map((n) => trn("{count} image", "{count} images", n)), ["0 images", "1 image", "2 images"]);
});

test("texts, forms for numbers and numbers are those of the language", () => {
  assert.equal(german.tr("Rank {rank} of {count}", { rank: "3", count: 1200 }), "Rang 3 von 1.200");
  assert.deepEqual([0, 1, 2].map((n) => german.trn("{count} image", "{count} images", n)), ["0 Bilder", "1 Bild", "2 Bilder"]);
  assert.equal(german.fixed(1234.5, 2), "1234,50");
  assert.equal(fixed(1234.5, 2), (1234.5).toFixed(2));
});

test("a text that the catalogue lacks stays English, with the numbers of the language", () => {
  assert.equal(german.tr("{share} of all", { share: 0.5 }), "0,5 of all");
  assert.equal(german.trn("{count} study", "{count} studies", 2), "2 studies");
});

test("forms follow the plural categories of the language", () => {
  const polish = translator("pl", {
    plurals: { one: 0, few: 1, many: 2 },
    messages: { "{count} image": ["{count} obraz", "{count} obrazy", "{count} obrazów"] },
  });
  const chinese = translator("zh-Hans", { plurals: { other: 0 }, messages: { "{count} image": ["{count} 张图像"] } });
  assert.deepEqual([1, 3, 5].map((n) => polish.trn("{count} image", "{count} images", n)), ["1 obraz", "3 obrazy", "5 obrazów"]);
  assert.equal(chinese.trn("{count} image", "{count} images", 1), "1 张图像");
});

test("values are put in as they are: a name with braces, a missing value", () => {
  assert.equal(tr("{a} and {b}", { a: "{b}", b: "$&" }), "{b} and $&");
  assert.equal(tr("{a} and {b}", { a: "x" }), "x and {b}");
  assert.equal(tr("constructor"), "constructor");
  assert.equal(german.tr("toString"), "toString");
});

test("a problem in English is its detail", () => {
  assert.equal(problemText({ type: "/docs/errors#not-found", detail: "no image 12" }, 404), "No image 12.");
  assert.equal(problemText({}, 502), "The service responded with status 502.");
});

