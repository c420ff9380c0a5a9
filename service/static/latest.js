// Work of which only the latest call matters.

/** A function that runs `work`, one call at a time, and once more if it was called meanwhile. */
export function latest(work) {
  let running = null;
  let again = false;
  return () => {
    if (running) again = true;
    else {
      running = (async () => {
        do {
          again = false;
          await work();
        } while (again);
      })().finally(() => (running = null));
    }
    return running;
  };
}
