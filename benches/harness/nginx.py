"""Debian's nginx with one file, to compare lists with."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .process import Process, free_port

CACHE = Path(os.environ.get("CACHE") or Path.home() / ".cache/mcpfleet-testcluster")

# Two workers, as many as cores of the machine that the goals are for. Nothing is compressed or logged.
CONFIG = """\
daemon off;
worker_processes 2;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off;
  sendfile on;
  keepalive_requests 100000000;
  default_type application/json;
  open_file_cache max=16;
  {temporary}
  server {{ listen 127.0.0.1:{port}; root {directory}; }}
}}
"""
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def start(stack, directory, size):
    """The address of a file of this size; `None` where there is no nginx."""
    program = find()
    if program is None:
        return None
    directory = directory / "nginx"
    directory.mkdir()
    # The workers may be of another user.
    for readable in (directory, directory.parent):
        readable.chmod(0o755)
    (directory / "list.json").write_bytes(b"x" * size)
    port = free_port()
    temporary = " ".join(f"{name}_temp_path {directory}/{name};" for name in TEMPORARY)
    config = directory / "nginx.conf"
    config.write_text(CONFIG.format(directory=directory, port=port, temporary=temporary))
    process = stack.enter_context(Process("nginx", [program, "-e", directory / "error.log", "-c", config]))
    process.wait_for_port(port)
    return f"http://127.0.0.1:{port}/list.json"


def find():
    """The program: of this machine, or fetched before, or fetched now without what its package would start."""
    kept = CACHE / "debian/usr/sbin/nginx"
    if found := shutil.which("nginx"):
        return found
    if not kept.exists() and shutil.which("apt-get"):
        with tempfile.TemporaryDirectory() as directory:
            fetch = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "nginx"]
            if subprocess.run(fetch, cwd=directory).returncode == 0:
                for package in Path(directory).glob("nginx_*.deb"):
                    subprocess.run(["dpkg-deb", "--extract", package, directory], check=True)
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(Path(directory) / "usr/sbin/nginx", kept)
    return kept if kept.exists() else None
