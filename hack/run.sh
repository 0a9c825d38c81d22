#!/usr/bin/env bash
# Starts the gateway on the quick-start documents, on real libvirt, and shows the VMs converging. Ctrl-C ends the gateway
# and leaves the VMs as they are.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"

gateway=$1 parent=$2
here=$(cd "$(dirname "$0")/.." && pwd)
work=$here/quickstart
listen=${GATEWAY_HTTP_LISTEN:-127.0.0.1:8080}
nats=${GATEWAY_NATS_EMBEDDED_LISTEN:-127.0.0.1:4222}

# answers reports whether a libvirt daemon serves the URI.
answers() { timeout 10 virsh -q -c "$1" list >/dev/null 2>&1; }

# hypervisor prints the URI to use, and says on standard error which one it is.
hypervisor() {
  if answers qemu:///system; then
    echo "hypervisor: the libvirt daemon of this machine, qemu:///system" >&2
    echo qemu:///system
    return
  fi
  if [ "$(id -u)" -eq 0 ] && command -v libvirtd >/dev/null; then
    echo "hypervisor: no libvirt daemon answers; starting virtlogd and libvirtd" >&2
    # Where no udev gave /dev/kvm its usual group and mode, QEMU's user can't open it, and libvirt, which can, asks QEMU
    # anew at every call what it can do.
    if [ -c /dev/kvm ] && getent group kvm >/dev/null && [ "$(stat -c %G%a /dev/kvm)" = root600 ]; then
      chgrp kvm /dev/kvm && chmod 660 /dev/kvm
    fi
    setsid "$parent" >/dev/null 2>&1 </dev/null &
    for _ in $(seq 100); do
      if answers qemu:///system; then
        echo "hypervisor: qemu:///system, by the libvirtd that was just started (it keeps running)" >&2
        echo qemu:///system
        return
      fi
      sleep 0.2
    done
  fi
  echo "hypervisor: no libvirt daemon can be used here; libvirt's own test driver, test:///default, stands in" >&2
  echo test:///default
}

uri=$(hypervisor)

mkdir -p "$work/documents.d"
for file in "$here"/config/examples/quickstart/*.yaml; do
  # Unchanged files are left alone, and files that the user edited too.
  target=$work/documents.d/$(basename "$file")
  [ -e "$target" ] || sed "s|uri: qemu:///system|uri: $uri|" "$file" >"$target"
done
# The hypervisor of this start, in case it is another one than last time.
sed -i -E "s#uri: (qemu:///system|test:///default)#uri: $uri#" "$work"/documents.d/*.yaml

export GATEWAY_SERVER="unix://$work/data/gateway.sock"
# A fixed id, so that the quick start finds its VMs again when its directory was removed in between.
export GATEWAY_ID=quickstart
log=$work/gateway.log
"$gateway" run --documents "$work/documents.d" --data-dir "$work/data" --listen "$listen" >"$log" 2>&1 &
pid=$!

stop() {
  trap - INT TERM
  kill -TERM "$pid" 2>/dev/null || true
  for _ in $(seq 50); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null || true
  echo
  echo "The gateway has ended. The VMs are as they were: see them with  virsh -c $uri list --all"
  exit 0
}
trap stop INT TERM

# One line for each change, until all three are running.
last=
deadline=$((SECONDS + 60))
while kill -0 "$pid" 2>/dev/null; do
  table=$("$gateway" get vm 2>/dev/null || true)
  # What changes by itself, the age, is not a change.
  seen=$(sed 's/ [^ ]*$//' <<<"$table")
  if [ -n "$table" ] && [ "$seen" != "$last" ]; then
    printf '\n%s\n' "$table"
    last=$seen
  fi
  running=$(grep -c ' running ' <<<"$table" || true)
  [ "$running" -ge 3 ] && break
  if [ $SECONDS -gt $deadline ]; then
    echo "not all VMs are running after 60 s; the log is $log, and \`gateway describe vm NAME\` says what each waits for" >&2
    break
  fi
  sleep 0.3
done

if ! kill -0 "$pid" 2>/dev/null; then
  echo "the gateway did not start:" >&2
  tail -n 5 "$log" >&2
  exit 1
fi

cat <<TEXT

Try, in another terminal:

  export GATEWAY_SERVER=unix://$work/data/gateway.sock PATH=\$PATH:$here/bin:$here/.cache/bin
  gateway get vm -o wide
  gateway describe vm hello
  gateway stop hello; gateway get vm --watch
  gateway events --follow
  virsh -c $uri list --all
  \$EDITOR $work/documents.d/vms.yaml        # a saved change is in force within a second
  nats -s nats://$nats sub 'gateway.vm.*.status'      # which \`make tools\` builds
  rm $work/documents.d/vms.yaml             # takes the VMs away, then their network; the next \`make run\` has them again

Log: $log    Metrics: http://$listen/metrics    Ctrl-C ends the gateway and leaves the VMs as they are.
TEXT

wait "$pid" || { echo "the gateway ended by itself:" >&2; tail -n 5 "$log" >&2; exit 1; }
