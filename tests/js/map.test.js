import assert from "node:assert/strict";
import { test } from "node:test";

import { chosenIds, chosenPage, keepChosen, MOST } from "./static/gallery/chosen_images.js";
import * as cameras from "./static/map/camera.js";
import { groupImages } from "./static/map/groups.js";
import { isKept, pictureSize, transformOf } from "./static/map/kept_picture.js";
import { galleryAddress, mapAddress, readAddress, withKey } from "./static/map/map_address.js";
import { isInside, PointGrid } from "./static/map/point_grid.js";
import { HIDDEN, stylePoints } from "./static/map/point_style.js";

const SIZE = { width: 800, height: 600 };
const close = (one, other) => one.forEach((value, at) => assert.ok(Math.abs(value - other[at]) < 1e-9, `${one} is not ${other}`));

test("pixels and places lead to each other, upwards is up", () => {
  const camera = cameras.zoomed(cameras.moved(cameras.fitted(SIZE), 30, -20), SIZE, 3, 100, 50);
  close(cameras.toPlace(camera, SIZE, ...cameras.toPixels(camera, SIZE, 0.2, -0.4)), [0.2, -0.4]);
  assert.ok(cameras.toPixels(camera, SIZE, 0, 0.5)[1] < cameras.toPixels(camera, SIZE, 0, 0.4)[1]);
});

test("the whole map fits, whatever the size", () => {
  for (const size of [SIZE, { width: 300, height: 900 }, { width: 5, height: 5 }]) {
    const [left, top] = cameras.toPixels(cameras.fitted(size), size, -1, 1);
    assert.ok(size.width < 50 || (left >= 0 && top >= 0), `${left} ${top}`);
    assert.ok(cameras.fitted(size).scale > 0);
  }
});

test("zooming keeps the place under the pointer and has limits", () => {
  const camera = cameras.fitted(SIZE);
  const place = cameras.toPlace(camera, SIZE, 350, 260);
  close(cameras.toPlace(cameras.zoomed(camera, SIZE, 2, 350, 260), SIZE, 350, 260), place);
  assert.equal(cameras.zoomed(camera, SIZE, 1e9).scale, camera.scale * 400);
  assert.equal(cameras.zoomed(camera, SIZE, 1e-9).scale, camera.scale / 2);
  assert.ok(Math.abs(cameras.moved(camera, -1e6, 1e6).x) <= 1);
});

test("the picture of the points is moved to where they would be drawn", () => {
  const drawn = cameras.fitted(SIZE);
  const camera = cameras.zoomed(cameras.moved(drawn, 40, -25), SIZE, 1.3, 100, 50);
  const [right, down, factor] = transformOf(drawn, camera).match(/-?[\d.]+(e-?\d+)?/g).map(Number);
  const [x, y] = cameras.toPixels(drawn, SIZE, 0.3, -0.6);
  const [width, height] = [SIZE.width / 2, SIZE.height / 2];
  close([width + (x - width) * factor + right, height + (y - height) * factor + down], cameras.toPixels(camera, SIZE, 0.3, -0.6));
  assert.ok(pictureSize(SIZE).width > SIZE.width);
});

test("the picture is drawn again where the map leaves it, or its size changes much", () => {
  const whole = cameras.fitted(SIZE);
  assert.ok(isKept(whole, cameras.moved(whole, 1e6, 1e6), SIZE)); // all of the map is in it
  assert.ok(!isKept(whole, cameras.zoomed(whole, SIZE, 1.6), SIZE));
  assert.ok(!isKept(whole, cameras.zoomed(whole, SIZE, 0.6), SIZE));
  const close = cameras.zoomed(whole, SIZE, 20);
  for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
    const moved = (share) => cameras.moved(close, dx * SIZE.width * share, dy * SIZE.height * share);
    assert.ok(isKept(close, moved(0.24), SIZE));
    assert.ok(!isKept(close, moved(0.26), SIZE));
  }
  assert.ok(!isKept(close, cameras.zoomed(close, SIZE, 1 / 1.49, 0, 0), SIZE)); // more is in sight than was drawn
  assert.ok(isKept(close, cameras.zoomed(close, SIZE, 1.4), SIZE));
});

test("points are larger where there are fewer", () => {
  const camera = cameras.fitted(SIZE);
  assert.ok(cameras.pointSize(camera, SIZE, 100) > cameras.pointSize(camera, SIZE, 100_000));
  assert.ok(cameras.pointSize(cameras.zoomed(camera, SIZE, 20), SIZE, 100_000) > cameras.pointSize(camera, SIZE, 100_000));
});

/** Points that look like chance but are always the same. */
function scattered(count) {
  let seed = 7;
  const next = () => {
    seed = (seed * 48271) % 2147483647;
    return (seed / 2147483647) * 2 - 1;
  };
  return [Float32Array.from({ length: count }, next), Float32Array.from({ length: count }, next)];
}

test("the nearest point and those within an outline are those of a plain search", () => {
  const [x, y] = scattered(3000);
  const grid = new PointGrid(x, y);
  const odd = (point) => point % 2 === 1;
  const triangle = [[-0.9, -0.8], [0.7, -0.2], [-0.1, 1]];
  for (const [px, py] of [[0, 0], [-1, 1], [0.33, -0.71]]) {
    const distances = [...x].map((value, point) => (odd(point) ? Math.hypot(value - px, y[point] - py) : Infinity));
    const least = Math.min(...distances);
    assert.equal(grid.nearest(px, py, 0.2, odd), distances.indexOf(least));
    assert.equal(grid.nearest(px, py, least * 0.99, odd), -1);
  }
  const plain = [...x.keys()].filter((point) => isInside(triangle, x[point], y[point]));
  assert.ok(plain.length > 100);
  assert.deepEqual(grid.within(triangle), plain);
  assert.deepEqual(grid.within(triangle, odd), plain.filter(odd));
  assert.deepEqual(grid.within(triangle.slice(0, 2)), []);
  assert.equal(new PointGrid(new Float32Array(), new Float32Array()).nearest(0, 0, 1), -1);
});

test("an outline that turns inwards leaves out what it goes around", () => {
  const horseshoe = [[0, 0], [3, 0], [3, 3], [2, 3], [2, 1], [1, 1], [1, 3], [0, 3]];
  assert.ok(isInside(horseshoe, 0.5, 2));
  assert.ok(!isInside(horseshoe, 1.5, 2));
});

test("values of a label are groups with different looks", () => {
  const values = Array.from({ length: 30 }, (_, index) => `value ${index}`);
  const { groups, of, numeric } = groupImages("kind", values, [0, 0, 1, 29, -1], "dark");
  assert.equal(numeric, false);
  assert.deepEqual(groups.slice(0, 2).map(({ name, count, where }) => [name, count, where]), [["value 0", 2, ["kind=value 0"]], ["value 1", 1, ["kind=value 1"]]]);
  assert.equal(new Set(groups.slice(0, 24).map(({ colour, shape }) => colour + shape)).size, 24);
  assert.deepEqual([...of], [0, 0, 1, 29, 30]);
  assert.deepEqual(groups.at(-1).where, ["!kind?"]);
  assert.equal(groups.at(-1).name, null);
});

test("rare values beyond 200 share a group", () => {
  const values = Array.from({ length: 203 }, (_, index) => `v${index}`);
  const { groups, of } = groupImages("kind", values, values.map((_, code) => code), "light");
  assert.equal(groups.length, 201);
  assert.equal(groups[200].more, 3);
  assert.equal(groups[200].count, 3);
  assert.equal(of[202], 200);
});

test("few numbers are a scale in their order, many are bins with about as many images each", () => {
  const few = groupImages("grade", ["2", "0", "10"], [0, 1, 2, 2], "dark");
  assert.ok(few.numeric);
  assert.deepEqual(few.groups.map(({ name, count }) => [name, count]), [["0", 1], ["2", 1], ["10", 2]]);
  assert.deepEqual([...few.of], [1, 0, 2, 2]);
  const values = Array.from({ length: 70 }, (_, index) => String((index * 37) % 70));
  const many = groupImages("age", values, values.map((_, code) => code), "dark");
  assert.deepEqual(many.groups.map(({ count }) => count), new Array(7).fill(10));
  assert.equal(many.groups[0].name, "0 – 9");
  assert.deepEqual(many.groups[6].where, ["age>=60", "age<=69"]);
  values.forEach((value, code) => assert.equal(many.of[code], Math.floor(Number(value) / 10)));
  assert.equal(groupImages("x", ["1", "1.0", "2"], [0, 1, 2], "dark").groups.length, 2); // equal numbers stay together
  assert.equal(groupImages("x", [], [-1, -1], "dark").groups[0].count, 2);
});

test("hidden groups are not drawn, emphasis makes the others pale", () => {
  const grouped = groupImages("kind", ["a", "b"], [0, 1, 0], "light");
  const bytes = stylePoints(grouped, new Set([1]), null, "#d5dbe1");
  assert.deepEqual([bytes[3], bytes[7], bytes[11]], [0, HIDDEN, 0]);
  const pale = stylePoints(grouped, new Set(), 1, "#d5dbe1");
  assert.deepEqual([...pale.slice(0, 3)], [0xd5, 0xdb, 0xe1]);
  assert.deepEqual([...pale.slice(4, 7)], [...stylePoints(grouped, new Set(), null, "#d5dbe1").slice(4, 7)]);
});

test("addresses hold query and results", () => {
  const address = mapAddress({ collection: "", image: "ab", hits: ["cd", "ef"] });
  assert.equal(address, "/map?image=ab&hits=cd%2Cef");
  assert.deepEqual(readAddress(address.slice(4)), { key: "", image: "ab", hits: ["cd", "ef"] });
  assert.equal(mapAddress({ collection: "knees", hits: [] }), "/map?collection=knees");
  assert.equal(readAddress(`?hits=${Array.from({ length: 300 }, (_, at) => at).join(",")}`).hits.length, 100);
  assert.equal(withKey("?image=ab", "a b"), "?image=ab&key=a+b");
  assert.equal(galleryAddress("", ["a=1", "b>=2"]), "/gallery?where=a%3D1&where=b%3E%3D2");
});

test("chosen images are kept for the gallery, page by page", () => {
  const kept = {};
  const storage = { getItem: (key) => kept[key] ?? null, setItem: (key, value) => { kept[key] = value; } };
  assert.deepEqual(chosenIds(storage), []);
  assert.equal(keepChosen(["a", "b", "c"], storage), 3);
  assert.deepEqual(chosenIds(storage), ["a", "b", "c"]);
  assert.deepEqual(chosenPage(["a", "b", "c"], null, 2), { ids: ["a", "b"], next: "2" });
  assert.deepEqual(chosenPage(["a", "b", "c"], "2", 2), { ids: ["c"], next: null });
  assert.equal(keepChosen(new Array(MOST + 5).fill("a"), storage), MOST);
  storage.setItem("gallery-images", "{damaged");
  assert.deepEqual(chosenIds(storage), []);
  assert.equal(keepChosen(["a"], { setItem() { throw new Error("full"); } }), 0);
});
