// Sending a request: by `fetch`, or so that its progress is known, which `fetch` does not tell.

/** Send a request as `fetch` does; onProgress(share): called while its body is sent. */
export function send(address, { onProgress, ...options }) {
  return onProgress ? sendWithProgress(address, options, onProgress) : fetch(address, options);
}

function sendWithProgress(address, { method, headers, body, signal }, onProgress) {
  return new Promise((resolve, reject) => {
    const sent = new XMLHttpRequest();
    const abort = () => sent.abort();
    sent.open(method, address);
    sent.responseType = "blob";
    for (const [name, value] of Object.entries(headers)) sent.setRequestHeader(name, value);
    sent.upload.addEventListener("progress", ({ loaded, total }) => onProgress(total ? loaded / total : 0));
    sent.addEventListener("load", () => resolve(new Response(sent.response, { status: sent.status, headers: headersOf(sent) })));
    sent.addEventListener("error", () => reject(new TypeError("no response")));
    sent.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
    sent.addEventListener("loadend", () => signal?.removeEventListener("abort", abort));
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) return reject(new DOMException("aborted", "AbortError"));
    sent.send(body);
  });
}

/** Headers of a response, but those of the coding, which the browser has undone. */
function headersOf(sent) {
  const lines = sent.getAllResponseHeaders().trim().split(/[\r\n]+/).map((line) => line.split(/: (.*)/s));
  return lines.filter(([name]) => name && !["content-encoding", "content-length"].includes(name.toLowerCase())).map(([name, value]) => [name, value ?? ""]);
}
