import assert from "node:assert/strict";
import { test } from "node:test";

import * as cameras from "./static/map/map_view.js";
import { mapAddress, readArea, writeArea } from "./static/map/groups.js";
import { groupImages, PALE, stylePoints } from "./static/map/groups.js";
import { isKept, pictureSize, transformOf } from "./static/map/map_view.js";
import { counted, meeting, ordered } from "./static/map/groups.js";
import { isInside, nearest } from "./static/map/points.js";

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

test("the nearest point is the visible one with the least distance", () => {
  const [x, y] = scattered(3000);
  const odd = (point) => point % 2 === 1;
  for (const [px, py] of [[0, 0], [-1, 1], [0.33, -0.71]]) {
    const distances = [...x].map((value, point) => (odd(point) ? Math.hypot(value - px, y[point] - py) : Infinity));
    const least = Math.min(...distances);
    assert.equal(nearest({ x, y }, px, py, 0.2, odd), distances.indexOf(least));
    assert.equal(nearest({ x, y }, px, py, least * 0.99, odd), -1);
  }
  assert.equal(nearest({ x: [], y: [] }, 0, 0, 1, odd), -1);
});

test("an outline that turns inwards leaves out what it goes around", () => {
  const horseshoe = [[0, 0], [3, 0], [3, 3], [2, 3], [2, 1], [1, 1], [1, 3], [0, 3]];
  assert.ok(isInside(horseshoe, 0.5, 2));
  assert.ok(!isInside(horseshoe, 1.5, 2));
});

test("values of a label are groups with different looks", () => {
  const values = Array.from({ length: 30 }, (_, index) => `value ${index}`);
  const { groups, of } = groupImages("kind", values, [0, 0, 1, 29, -1], "dark");
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

test("points that do not meet the conditions are pale, and below the others", () => {
  const grouped = groupImages("kind", ["a", "b"], [0, 1, 0], "light");
  const all = stylePoints(grouped, null, "light");
  assert.deepEqual([all[3], all[7], all[11]], [0, 0, 0]);
  const some = stylePoints(grouped, new Uint8Array([0, 1, 0]), "light");
  assert.deepEqual([some[3], some[7], some[11]], [PALE, 0, PALE]);
  assert.deepEqual([...some.slice(0, 3)], [0xd5, 0xdb, 0xe1]);
  assert.deepEqual([...some.slice(4, 7)], [...all.slice(4, 7)]);
});

const LABELS = {
  kind: { values: ["knee", "hand", "foot"], codes: [0, 1, 0, 2, -1] },
  grade: { values: ["10", "9", "none"], codes: [0, 1, 2, -1, 1] },
};
const labelsOf = async (key) => LABELS[key];
const ALL = [0, 1, 2, 3, 4];
const left = (...where) => meeting(ALL, where, labelsOf);

test("conditions leave the points that the service would", async () => {
  assert.deepEqual(await left(), ALL);
  assert.deepEqual(await left("kind=knee", "kind=foot"), [0, 2, 3]); // any of them
  assert.deepEqual(await left("kind!=knee"), [1, 3, 4]);
  assert.deepEqual(await left("kind?"), [0, 1, 2, 3]);
  assert.deepEqual(await left("!grade?"), [3]);
  assert.deepEqual(await left("grade>=9.5"), [0]); // as numbers
  assert.deepEqual(await left("grade<100", "kind=knee"), [0]);
  assert.deepEqual(await left("grade > 8", "kind=nothing"), []);
});

test("points have the order of the list: numbers, texts, images without the label", async () => {
  const inOrder = (sort) => ordered(ALL, sort, labelsOf);
  assert.deepEqual(await inOrder("oldest"), ALL);
  assert.deepEqual(await inOrder("newest"), [4, 3, 2, 1, 0]);
  assert.deepEqual(await inOrder("label:grade"), [1, 4, 0, 2, 3]);
  assert.deepEqual(await inOrder("-label:grade"), [0, 1, 4, 2, 3]);
  assert.deepEqual(await inOrder("label:kind"), [3, 1, 0, 2, 4]);
});

test("values are counted among the points of an area", () => {
  assert.deepEqual(counted([1, 2, 3, 4], LABELS.grade, 1), { items: [{ value: "9", images: 2 }], values: 2, minimum: 9, maximum: 9 });
  assert.deepEqual(counted([0, 2, 3], LABELS.kind, 5).items, [{ value: "knee", images: 2 }, { value: "foot", images: 1 }]);
  assert.equal(counted([3], LABELS.grade, 5).minimum, null);
});

test("an area is written in few characters, and read again", () => {
  const outline = [[0.1234567, -1], [0.5, 0.25], [-0.3, 1]];
  assert.equal(writeArea(outline), "0.12346,-1,0.5,0.25,-0.3,1");
  assert.deepEqual(readArea(writeArea(outline)), [[0.12346, -1], [0.5, 0.25], [-0.3, 1]]);
  const round = Array.from({ length: 500 }, (_, at) => [Math.cos(at / 80), Math.sin(at / 80)]);
  assert.equal(readArea(writeArea(round)).length, 48);
  const tiny = [[0.5, 0.5], [0.501, 0.5], [0.501, 0.501], [0.5, 0.501]].map(([x, y]) => [x + 0.0004, y + 0.0004]); // on a map that is much enlarged
  assert.ok(isInside(readArea(writeArea(tiny)), 0.5013, 0.5012));
  assert.ok(!isInside(readArea(writeArea(tiny)), 0.5002, 0.5008));
  for (const text of [undefined, "", "1,2,3,4", "1,2,3,4,5", "a,b,c,d,e,f"]) assert.deepEqual(readArea(text), []);
});

test("an address has the query and at most 100 results", () => {
  assert.equal(mapAddress({ collection: "", image: "ab", hits: ["cd", "ef"] }), "/browse?image=ab&hits=cd%2Cef");
  const many = mapAddress({ collection: "knees", image: undefined, hits: Array.from({ length: 300 }, (_, at) => at) });
  assert.equal(new URLSearchParams(many.split("?")[1]).get("hits").split(",").length, 100);
  assert.match(many, /^\/browse\?collection=knees&hits=/);
});
