#!/usr/bin/env bash
# Builds mcpfleet as a static binary and puts it into an image archive, without a container engine: the same files,
# user and entrypoint as the last stage of the Dockerfile.
#
#   operator-image.sh OUT.tar [NAME:TAG]     default name: local/mcpfleet:test
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$(realpath -m "${1:?OUT.tar}") name=${2:-local/mcpfleet:test}

cd "$root"
host=$(rustc --print host-tuple)
# With an explicit target the flags stay away from build scripts and procedural macros, which must be dynamic.
RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --release --bin mcpfleet --target "$host"
binary=${CARGO_TARGET_DIR:-$root/target}/$host/release/mcpfleet
if readelf --program-headers "$binary" | grep -q INTERP; then
  echo "$0: $binary is not static" >&2
  exit 1
fi

passwd=$(mktemp)
trap 'rm "$passwd"' EXIT
echo 'mcpfleet:x:65532:65532::/nonexistent:/sbin/nologin' >"$passwd"
mkdir -p "$(dirname "$out")"
python3 "$here/image.py" "$out" "$name" --entrypoint /mcpfleet --user 65532:65532 \
  "$binary:/mcpfleet" "$passwd:/etc/passwd" /etc/ssl/certs/ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt
