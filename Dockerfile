# The image: one static binary on nothing. docs/container.md says how to run it, and how to reach the server.
#
#   docker build -t reap .
#   docker run -d --restart unless-stopped --name reap -p 6443:6443 -v reap:/var/lib/reap reap
#
# Where no image registry can be reached, from a binary built outside:
#
#   scripts/build --static && cp /etc/ssl/certs/ca-certificates.crt bin/
#   docker build --target prebuilt -t reap .

# What both images are. No FROM here names a registry, and the stages that need one come last, since
# some builders run every stage up to their target.
FROM scratch AS base
# The address and the directory are in the environment, so that arguments in place of CMD's, and commands
# run beside the server, have them too. There is no /tmp: temporary files go where everything else goes.
ENV HOME=/var/lib/reap TMPDIR=/var/lib/reap REAP_DATA_DIR=/var/lib/reap REAP_BIND_ADDRESS=0.0.0.0
USER 65532:65532
EXPOSE 6443
STOPSIGNAL SIGTERM
# A start that has not ended after four minutes has failed by itself.
HEALTHCHECK --interval=30s --timeout=10s --start-period=4m --retries=3 CMD ["/usr/local/bin/reap", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/reap"]
CMD ["server"]

FROM base AS prebuilt
ARG BINARY=bin/reap
ARG CA_CERTIFICATES=bin/ca-certificates.crt
COPY --chmod=755 ${BINARY} /usr/local/bin/reap
COPY --chmod=644 ${CA_CERTIFICATES} /etc/ssl/certs/ca-certificates.crt
# A new volume takes its owner from the directory in the image, and only a copy sets one without a shell.
COPY --chown=65532:65532 LICENSE /var/lib/reap/
WORKDIR /var/lib/reap
VOLUME /var/lib/reap

FROM golang:1.26.8-bookworm AS build
WORKDIR /src
# Modules first, so that a change of the source does not fetch them again.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The build context has no .git to ask.
ARG BUILD_VERSION=dev
ARG BUILD_COMMIT=unknown
ARG BUILD_DATE=unknown
RUN ./scripts/build --static -o /out/reap

FROM base
COPY --from=build --chmod=755 /out/reap /usr/local/bin/reap
COPY --from=build --chmod=644 /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --chown=65532:65532 LICENSE /var/lib/reap/
WORKDIR /var/lib/reap
VOLUME /var/lib/reap
