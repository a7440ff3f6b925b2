"""A process that runs while it is measured, and what it prints."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time

# How long a process may take to be ready, and to end, in seconds.
READY = 30
GRACE = 5


class Process:
    """A started process; `with` ends it."""

    def __init__(self, name, command, environment=None, errors=None):
        """`environment` is added to ours; `errors` is a file that takes its standard error."""
        self.name = name
        self.lines = []
        # A session of its own: Ctrl-C reaches this program only, which ends the others in order.
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **(environment or {})},
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self):
        return self.child.pid

    def wait_for(self, what, find):
        """What `find` finds in a printed line, as soon as there is one."""

        def look():
            return next((found for found in map(find, self.lines) if found is not None), None)

        return self._until(what, look)

    def wait_for_port(self, port):
        """Waits until somebody listens on a port of this machine."""

        def look():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return True

        self._until(f"port {port}", look)

    def rss_kib(self):
        """Its resident memory."""
        with open(f"/proc/{self.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()
        try:
            self.child.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def _until(self, what, look):
        end = time.monotonic() + READY
        while time.monotonic() < end:
            ended = self.child.poll()
            found = look()
            if found is not None:
                return found
            if ended is not None:
                sys.exit(f"{self.name} ended with status {ended} before {what} came")
            time.sleep(0.02)
        sys.exit(f"{self.name}: {what} did not come within {READY} s; it printed: {self.lines}")

    def _read(self):
        for line in self.child.stdout:
            self.lines.append(line.rstrip("\n"))


def free_port():
    """A port of this machine that nobody listens on just now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
