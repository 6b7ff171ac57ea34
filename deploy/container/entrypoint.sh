#!/bin/sh
# Starts causewayd in a container: fills in what differs from one pod of a DaemonSet to the next, then becomes the gateway. Without
# a template it becomes the gateway at once.
#
#   causeway-entrypoint [OPTION...]    options go to causewayd
#
#   CAUSEWAY_FILE       the configuration where there is no template (default /etc/causeway/causeway.toml)
#   CAUSEWAY_TEMPLATE   the configuration (default /etc/causeway/causeway.toml.in), in which stand
#     @MAIN_CPU@          the first CPU that this container may use
#     @POLL_CPU@          the second one, or the first where there is one only
#     @ADDRESS@           the address of this node, from CAUSEWAY_NODES
#     @PCI_DEVICE@        the PCI address that the SR-IOV device plugin gave this container
#   CAUSEWAY_NODES      lines of "node address/prefix" (default /etc/causeway/nodes)
#   NODE_NAME           name of this node, by the downward API
#   CAUSEWAY_CONFIG     where the result goes (default /run/causeway/causeway.toml)
set -eu

template=${CAUSEWAY_TEMPLATE:-/etc/causeway/causeway.toml.in}
nodes=${CAUSEWAY_NODES:-/etc/causeway/nodes}
config=${CAUSEWAY_CONFIG:-/run/causeway/causeway.toml}
file=${CAUSEWAY_FILE:-/etc/causeway/causeway.toml}
causewayd=${CAUSEWAYD:-/usr/sbin/causewayd}

fail() {
  echo "causeway-entrypoint: $*" >&2
  exit 1
}
if [ ! -e "$template" ]; then
  [ -z "${CAUSEWAY_TEMPLATE:-}" ] || fail "there is no $template, which CAUSEWAY_TEMPLATE names"
  [ -r "$file" ] || fail "cannot read $template nor $file: mount a configuration at one of them"
  exec "$causewayd" --config "$file" "$@"
fi
[ -r "$template" ] || fail "cannot read $template: may the user $(id -u) read what is mounted there?"
uses() { grep -v '^ *#' "$template" | grep -q "@$1@"; }

# "0-2,5" -> "0 1 2 5", of which the first two.
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr ',' '\n' |
  awk -F- '{ for (cpu = $1; cpu <= ($2 == "" ? $1 : $2); cpu++) print cpu }' | head -n 2 | tr '\n' ' ')
main_cpu=${cpus%% *}
poll_cpu=$(echo "$cpus" | awk '{ print $NF }')

address=''
if uses ADDRESS; then
  [ -n "${NODE_NAME:-}" ] || fail "NODE_NAME is not set: the pod has to say it by the downward API"
  [ -r "$nodes" ] || fail "cannot read $nodes: is the ConfigMap mounted there?"
  address=$(awk -v node="$NODE_NAME" '$1 == node { print $2; exit }' "$nodes")
  [ -n "$address" ] || fail "no line of $nodes begins with $NODE_NAME: give this node an address"
fi

pci=''
if uses PCI_DEVICE; then
  # PCIDEVICE_<RESOURCE>=address[,address...], one variable per resource.
  pci=$(env | sed -n 's/^PCIDEVICE_[A-Z0-9_]*=\([0-9a-fA-F:.]*\)\(,.*\)\{0,1\}$/\1/p' | head -n 1)
  [ -n "$pci" ] || fail "no PCIDEVICE_... variable: the SR-IOV device plugin gave this container no device"
fi

sed -e "s|@MAIN_CPU@|$main_cpu|g" -e "s|@POLL_CPU@|$poll_cpu|g" -e "s|@ADDRESS@|$address|g" -e "s|@PCI_DEVICE@|$pci|g" \
  "$template" >"$config"
exec "$causewayd" --config "$config" "$@"
