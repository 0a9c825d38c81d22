# The gateway with the libvirt client library, which it opens at run time. Build: docker build --target gateway -t gateway .
FROM golang:1.26-bookworm AS build
ENV CGO_ENABLED=1 TAGS=libvirt_dlopen,libvirt_without_lxc,libvirt_without_qemu
WORKDIR /src
COPY go.mod go.sum ./
# What does not change with our sources, and takes the longest, is built before they are there.
RUN go mod download \
 && go build -o /nats-server github.com/nats-io/nats-server/v2 \
 && go build -tags "$TAGS" libvirt.org/go/libvirt
COPY . .
ARG VERSION=unknown
RUN go build -tags "$TAGS" -ldflags "-X main.version=$VERSION" -o /gateway ./cmd/gateway

FROM debian:bookworm-slim AS nats
COPY --from=build /nats-server /usr/local/bin/nats-server
EXPOSE 4222
ENTRYPOINT ["nats-server"]
CMD ["--jetstream", "--store_dir", "/data"]

FROM debian:bookworm-slim AS gateway
RUN apt-get update \
 && apt-get install -y --no-install-recommends libvirt0 openssh-client ca-certificates tzdata \
 && rm -rf /var/lib/apt/lists/* \
 && mkdir -m 0750 /run/gateway
COPY --from=build /gateway /usr/local/bin/gateway
# The socket is where the client commands look first: docker-compose exec gateway gateway get vm.
ENV RUNTIME_DIRECTORY=/run/gateway
VOLUME ["/var/lib/gateway", "/etc/gateway/documents.d"]
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["gateway", "get", "hosts", "-o", "name"]
ENTRYPOINT ["gateway"]
CMD ["run", "--config", "/etc/gateway/config.yaml"]

# A libvirt daemon with QEMU for trying the gateway without one on the host (profile libvirt). It is the last: Docker builds all
# stages before the one that is asked for, where it has no BuildKit. Without a PID 1 that reaps, libvirtd waits 40 s for each
# QEMU that has ended.
FROM debian:bookworm-slim AS libvirt
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      libvirt-daemon-system libvirt-daemon-driver-qemu libvirt-clients qemu-system-x86 qemu-utils ovmf dnsmasq-base iptables \
      iproute2 tini \
 && rm -rf /var/lib/apt/lists/* \
 && printf 'user = "root"\ngroup = "root"\nsecurity_driver = "none"\nnamespaces = []\ncgroup_controllers = []\nstdio_handler = "file"\n' >> /etc/libvirt/qemu.conf \
 && printf 'auth_unix_rw = "none"\nunix_sock_rw_perms = "0777"\n' >> /etc/libvirt/libvirtd.conf
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["virsh", "-q", "-c", "qemu:///system", "list"]
ENTRYPOINT ["tini", "--"]
# What runs ends with the container. What /run/libvirt, a volume, still says about it names processes that are others by now.
CMD ["sh", "-c", "find /run/libvirt -mindepth 1 -delete && exec libvirtd"]
