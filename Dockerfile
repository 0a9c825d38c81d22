# The gateway with the libvirt client library, which it opens at run time. Build: docker build -t gateway .
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=1 go build -tags libvirt_dlopen,libvirt_without_lxc,libvirt_without_qemu -o /gateway ./cmd/gateway \
 && go build -o /nats-server github.com/nats-io/nats-server/v2

FROM debian:bookworm-slim AS gateway
RUN apt-get update \
 && apt-get install -y --no-install-recommends libvirt0 openssh-client ca-certificates tzdata \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /gateway /usr/local/bin/gateway
VOLUME ["/var/lib/gateway", "/etc/gateway/documents.d"]
EXPOSE 8080
ENTRYPOINT ["gateway"]
CMD ["run", "--config", "/etc/gateway/config.yaml"]

FROM debian:bookworm-slim AS nats
COPY --from=build /nats-server /usr/local/bin/nats-server
EXPOSE 4222
ENTRYPOINT ["nats-server"]
CMD ["--jetstream", "--store_dir", "/data"]

# A libvirt daemon with QEMU for trying the gateway without one on the host (profile libvirt).
FROM debian:bookworm-slim AS libvirt
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      libvirt-daemon-system libvirt-daemon-driver-qemu libvirt-clients qemu-system-x86 qemu-utils dnsmasq-base iptables iproute2 \
 && rm -rf /var/lib/apt/lists/* \
 && printf 'user = "root"\ngroup = "root"\nsecurity_driver = "none"\nnamespaces = []\ncgroup_controllers = []\nstdio_handler = "file"\n' >> /etc/libvirt/qemu.conf \
 && printf 'auth_unix_rw = "none"\nunix_sock_rw_perms = "0777"\n' >> /etc/libvirt/libvirtd.conf
CMD ["libvirtd"]
