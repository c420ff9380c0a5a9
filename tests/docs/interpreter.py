"""Runs the files whose paths it reads from stdin in one namespace, and answers each with a line on stdout."""

import contextlib
import sys
import traceback

if __name__ == "__main__":
    names = {"__name__": "__main__"}
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        path = line.rstrip("\n")
        answer = "failed"
        with contextlib.suppress(SystemExit), open(path, encoding="utf-8") as file:
            try:
                exec(compile(file.read(), path, "exec"), names)
                answer = "done"
            except Exception:
                traceback.print_exc()
        print(answer, file=answers, flush=True)
