// The address of what is on the page, for somebody else.

const at = (id) => document.getElementById(id);

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // not allowed, or not a secure context
  }
}

function say(words) {
  at("shared").textContent = words;
  at("shared").hidden = false;
}

/** Take the words about an earlier address away. */
export function clear() {
  at("shared").hidden = true;
}

/** Copy the address; hasFile: whether the query is a file of the reader, which no address can carry. */
export async function share(hasFile) {
  const copied = await copy(location.href);
  const done = copied ? "Address copied." : "The browser does not let the page copy: take the address from its bar.";
  say(hasFile ? `${done} It carries the settings, not your image: that stays with you; send it along.` : done);
}
