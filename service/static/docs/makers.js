// Lines that make what an operation names, before its own line.

import { curlLine } from "./curl.js";
import { replaceExamples } from "./request.js";

/** The maker of a form's operation with ids of things that exist, null if it has none. */
export function readMaker(form, known) {
  if (!form.dataset.maker) return null;
  const maker = JSON.parse(form.dataset.maker);
  const { [maker.example]: _, ...rest } = known;
  const others = form.dataset.confirm && maker.variable === "IMAGE_ID" ? {} : rest; // no second image may be changed
  const fill = (text) => replaceExamples(text, known);
  const body = maker.request.body.text ? { ...maker.request.body, text: fill(maker.request.body.text) } : maker.request.body;
  return { ...maker, others, python: fill(maker.python), request: { ...maker.request, body } };
}

/** The curl line of an operation after the one that makes what it names, whose id goes into a variable of the shell. */
export function withMaker(line, maker, options) {
  if (!maker) return line;
  const { variable, example, field, request } = maker;
  const made = curlLine(request, { ...options, output: "", silent: true });
  const id = `grep -o '"${field}": *\\[*"[^"]*' | head -n 1 | sed 's/.*"//'`;
  return `${variable}=$(${made} | ${id})\n${putVariable(line, example, variable)}`;
}

/** Put a variable in place of an id, also inside of quotes, where the shell would not read it. */
function putVariable(line, example, variable) {
  const parts = line.split(example);
  let [text, quoted] = ["", false];
  for (const [index, part] of parts.entries()) {
    text += part;
    for (const [quote] of part.matchAll(/\\'|'/g)) quoted = quote === "'" ? !quoted : quoted; // \' is a character
    if (index < parts.length - 1) text += quoted ? `'$${variable}'` : `$${variable}`;
  }
  return text;
}

/** The Python lines of an operation after the one that makes what it names. */
export function pythonWithMaker(source, maker) {
  if (!maker) return source;
  const name = maker.variable.toLowerCase();
  return `${name} = ${maker.python}\n${source.replaceAll(`"${maker.example}"`, name)}`;
}
