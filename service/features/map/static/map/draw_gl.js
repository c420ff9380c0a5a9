// Draws the points with WebGL, or as squares on a plain canvas in browsers without it.

import { PALE } from "./groups.js";
import { toPixels } from "./map_view.js";

const SMALL = 7; // pixels; smaller points have no rim, which would be most of them

const VERTEX = `
attribute vec2 place;
attribute vec4 look;
uniform vec2 centre, reach;
uniform float size, pale;
varying vec4 shown;
void main() {
  shown = look;
  gl_PointSize = size;
  gl_Position = (look.a * 255.0 > 3.5) != (pale > 0.5) ? vec4(2.0, 2.0, 2.0, 1.0) : vec4((place - centre) * reach, 0.0, 1.0);
}`;

const FRAGMENT = `
precision mediump float;
varying vec4 shown;
uniform float rim;
void main() {
  vec2 at = gl_PointCoord * 2.0 - 1.0;
  float shape = floor(shown.a * 255.0 + 0.5);
  float edge = shape < 0.5 || shape > 3.5 ? length(at)
    : shape < 1.5 ? max(abs(at.x), abs(at.y)) * 1.15
    : shape < 2.5 ? max(at.y, abs(at.x) * 1.2 - at.y * 0.6) * 1.25
    : (abs(at.x) + abs(at.y));
  if (edge > 1.0) discard;
  gl_FragColor = vec4(shown.rgb * (edge > 0.72 ? rim : 1.0), 1.0);
}`;

function compile(gl, type, source) {
  const shader = gl.createShader(type);
  gl.shaderSource(shader, source);
  gl.compileShader(shader);
  return shader;
}

/** Create {setPoints, setLooks, draw} for a canvas; null without WebGL. */
export function createGlPoints(canvas) {
  const gl = canvas.getContext("webgl", { antialias: false, alpha: true });
  if (!gl) return null;
  const program = gl.createProgram();
  gl.attachShader(program, compile(gl, gl.VERTEX_SHADER, VERTEX));
  gl.attachShader(program, compile(gl, gl.FRAGMENT_SHADER, FRAGMENT));
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return null;
  gl.useProgram(program);
  const uniform = (name) => gl.getUniformLocation(program, name);
  const uniforms = { centre: uniform("centre"), reach: uniform("reach"), size: uniform("size"), rim: uniform("rim"), pale: uniform("pale") };
  let count = 0;

  function attribute(name, components, type, normalised) {
    const buffer = gl.createBuffer();
    const location = gl.getAttribLocation(program, name);
    return (data) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
      gl.enableVertexAttribArray(location);
      gl.vertexAttribPointer(location, components, type, normalised, 0, 0);
    };
  }
  const places = attribute("place", 2, gl.FLOAT, false);
  const looks = attribute("look", 4, gl.UNSIGNED_BYTE, true);

  return {
    setPoints(x, y) {
      const both = new Float32Array(x.length * 2);
      for (let point = 0; point < x.length; point += 1) both.set([x[point], y[point]], point * 2);
      places(both);
      count = x.length;
    },
    setLooks: looks,
    draw(camera, size, diameter, ratio) {
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.clear(gl.COLOR_BUFFER_BIT);
      gl.uniform2f(uniforms.centre, camera.x, camera.y);
      gl.uniform2f(uniforms.reach, (2 * camera.scale) / size.width, (2 * camera.scale) / size.height);
      gl.uniform1f(uniforms.size, diameter * ratio);
      gl.uniform1f(uniforms.rim, diameter * ratio < SMALL ? 1 : 0.75);
      for (const pale of count ? [1, 0] : []) {
        gl.uniform1f(uniforms.pale, pale);
        gl.drawArrays(gl.POINTS, 0, count);
      }
    },
  };
}

export function createPlainPoints(canvas) {
  const context = canvas.getContext("2d");
  let [x, y, looks] = [[], [], new Uint8Array()];
  return {
    setPoints: (...places) => ([x, y] = places),
    setLooks: (bytes) => (looks = bytes),
    draw(camera, size, diameter, ratio) {
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, size.width, size.height);
      let last = "";
      for (let step = 0; step < 2 * x.length; step += 1) {
        const point = step % x.length;
        const at = point * 4;
        if ((looks[at + 3] === PALE) !== step < x.length) continue; // pale ones first
        const [left, top] = toPixels(camera, size, x[point], y[point]);
        if (left < 0 || top < 0 || left > size.width || top > size.height) continue;
        const colour = `rgb(${looks[at]} ${looks[at + 1]} ${looks[at + 2]})`;
        if (colour !== last) context.fillStyle = last = colour;
        context.fillRect(left - diameter / 2, top - diameter / 2, diameter, diameter);
      }
    },
  };
}
