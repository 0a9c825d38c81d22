#!/usr/bin/env bash
# Installs the Debian packages that `make run` or `make test` needs and that are missing. Says what it does, and does
# nothing where everything is there.
set -euo pipefail

# What is looked for, and the package that has it. A program or file that exists is not installed again.
run=(
  gcc:gcc
  libvirtd:libvirt-daemon
  virsh:libvirt-clients
  qemu-system-x86_64:qemu-system-x86
  qemu-img:qemu-utils
  dnsmasq:dnsmasq-base
  ip:iproute2
  iptables:iptables
  /usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so:libvirt-daemon-driver-qemu
  /etc/libvirt/libvirtd.conf:libvirt-daemon-system
)
test=(
  "${run[@]}"
  busybox:busybox-static
  cpio:cpio
  gzip:gzip
  ping:iputils-ping
  curl:curl
  ssh:openssh-client
  openssl:openssl
  virt-install:virtinst
  /usr/share/OVMF/OVMF_CODE_4M.fd:ovmf
  mkfs.ext4:e2fsprogs
  mkfs.btrfs:btrfs-progs
)

case "${1:-}" in
  run) wanted=("${run[@]}") ;;
  test) wanted=("${test[@]}") ;;
  *) echo "usage: $0 run|test" >&2; exit 2 ;;
esac

missing=()
for entry in "${wanted[@]}"; do
  what=${entry%%:*} package=${entry##*:}
  case "$what" in
    /*) [ -e "$what" ] || missing+=("$package") ;;
    *) PATH=$PATH:/usr/sbin:/sbin command -v "$what" >/dev/null || missing+=("$package") ;;
  esac
done

[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]}; this machine has no apt-get: install them by hand, then run again" >&2
  exit 1
fi

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "missing: ${missing[*]}; install them as root, then run again" >&2; exit 1; }
  sudo=(sudo)
fi

echo "installing: ${missing[*]}"
log=$(mktemp)
if ! { "${sudo[@]}" apt-get update -q &&
       "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "the packages could not be installed (full output: $log)" >&2
  exit 1
fi
rm -f "$log"
