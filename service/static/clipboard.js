// Copying text to the clipboard.

/** Copy `text`; false if the browser does not allow it. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // no permission, or not a secure context
  }
}
