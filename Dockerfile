# syntax=docker/dockerfile:1

# The image of Hawser: one static binary, the certificate authorities of the system, and an SBOM. It has no shell, runs as
# an unprivileged user, and contains neither the playground nor any tool for tests.
#
#   docker build --tag registry.example.org/hawser:0.1.0 .
#
# hack/image runs the same build command without docker, and checks the binary.

FROM docker.io/library/rust:1.95.0-alpine AS build
WORKDIR /src
COPY . .
# Programs for Alpine's target are linked statically, with musl.
# At a fixed address, the program needs no relocations, and an agent takes 3 MB less memory.
RUN cargo rustc --locked --profile dist --package hawser --bin hawser --no-default-features --features webhook -- -C relocation-model=static
RUN cargo install --locked --version 0.5.9 --root /tools cargo-cyclonedx \
    && PATH=/tools/bin:$PATH hack/sbom
# The names by which KubeFed's manifests start it.
RUN mkdir /hyperfed && for name in hyperfed controller-manager kubefedctl webhook; do ln -s /usr/local/bin/hawser /hyperfed/$name; done

FROM scratch
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="hawser" \
      org.opencontainers.image.description="Publishes APIs of a Kubernetes cluster into kcp workspaces" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/target/dist/hawser /usr/local/bin/hawser
COPY --from=build /hyperfed /hyperfed
COPY --from=build /src/sbom.cdx.json /usr/share/doc/hawser/sbom.cdx.json
COPY LICENSE /usr/share/doc/hawser/LICENSE
# The user of the chart.
USER 65534:65534
# Without a subcommand, flags are those of `hawser agent`.
ENTRYPOINT ["/usr/local/bin/hawser"]
