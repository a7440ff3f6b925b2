# The image of mcpfleet: one static binary, CA roots and a user, on nothing.
#
# Not run by the tests, which have no container engine: `tests/cluster/operator-image.sh` builds the same binary with
# the same flags and packs the same files, and that image is installed and used by the end-to-end tests. The build stage
# below, and building for arm64, were checked by reading only.
#
#   docker build --tag REGISTRY/mcpfleet:0.1.0 .
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# With an explicit target the flags stay away from build scripts and procedural macros, which must be dynamic.
RUN host=$(rustc --print host-tuple) \
    && RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --release --bin mcpfleet --target "$host" \
    && cp "target/$host/release/mcpfleet" /mcpfleet \
    && echo 'mcpfleet:x:65532:65532::/nonexistent:/sbin/nologin' > /passwd

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /passwd /etc/passwd
COPY --from=build /mcpfleet /mcpfleet
USER 65532:65532
EXPOSE 8080 9090
ENTRYPOINT ["/mcpfleet"]
