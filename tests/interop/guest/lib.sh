# shellcheck shell=sh disable=SC2012,SC2015
# Shell functions of the guest; every command of the host starts by reading this file.
# busybox has an ip, a tc and a modprobe of its own that lack what is needed here, hence the full paths.

fail() {
  echo "guest: $*"
  exit 1
}

nic_up() { # kernel's name, our name, MTU, addresses separated by commas
  [ "$1" = "$2" ] || /sbin/ip link set "$1" name "$2"
  /sbin/ip link set "$2" mtu "$3" up
  for address in $(echo "$4" | tr ',' ' '); do
    case $address in
    # nodad: without it the address is tentative for a second and rxe takes no GID from it.
    *:*) /sbin/ip address add "$address" dev "$2" nodad ;;
    *) /sbin/ip address add "$address" dev "$2" ;;
    esac
  done
}

vfio_up() { # PCI address of a NIC that no driver has yet
  /sbin/modprobe vfio_iommu_type1 && /sbin/modprobe vfio_pci || return 1
  echo vfio-pci >"/sys/bus/pci/devices/$1/driver_override"
  echo "$1" >/sys/bus/pci/drivers_probe
}

rxe_up() { /sbin/modprobe rdma_rxe && { rdma link show rxe0/1 >/dev/null 2>&1 || rdma link add rxe0 type rxe netdev roce0; }; }

siw_up() { /sbin/modprobe siw && { rdma link show siw0/1 >/dev/null 2>&1 || rdma link add siw0 type siw netdev roce0; }; }

drop_caches() {
  sync
  echo 3 >/proc/sys/vm/drop_caches
}

# --- A bad link, the same each way. Egress is a plain netem; ingress goes through an ifb, whose egress is a netem. ---

loss_on() { netem_on loss "$1%"; } # percent

loss_off() { netem_off; }

netem_on() { # netem's own words, such as: loss 1%
  for module in sch_netem ifb sch_ingress act_mirred cls_matchall; do
    /sbin/modprobe "$module" || return 1
  done
  /sbin/ip link show ifb0 >/dev/null 2>&1 || /sbin/ip link add ifb0 type ifb
  /sbin/ip link set ifb0 mtu 9000 up
  /sbin/tc qdisc add dev roce0 root netem "$@" limit 10000 &&
    /sbin/tc qdisc add dev ifb0 root netem "$@" limit 10000 &&
    /sbin/tc qdisc add dev roce0 ingress &&
    /sbin/tc filter add dev roce0 parent ffff: protocol all matchall action mirred egress redirect dev ifb0
}

netem_off() {
  /sbin/tc qdisc del dev roce0 root
  /sbin/tc qdisc del dev roce0 ingress
  /sbin/tc qdisc del dev ifb0 root
}

# Prints "out N" and "in N": packets netem has dropped.
loss_counts() {
  for way in "out roce0" "in ifb0"; do
    # shellcheck disable=SC2086
    set -- $way
    /sbin/tc -s qdisc show dev "$2" | awk -v way="$1" '/^qdisc/ { netem = ($2 == "netem") }
      netem && /dropped/ { sub(",", "", $7); print way, $7; exit }'
  done
}

# --- The workload: steps run one by one by the host. /tmp/src holds the files to copy, SUMS their md5 sums. ---

make_sources() { # sizes in bytes
  rm -rf /tmp/src
  mkdir -p /tmp/src
  cd /tmp/src || return 1
  for size in "$@"; do
    head -c "$size" /dev/urandom >"f$size"
  done
  md5sum f* >SUMS
}

write_files() { # directory below the mount
  mkdir -p "$1" && cp /tmp/src/f* "$1/" && sync
}

# Reads from the server, not from the page cache.
check_files() {
  drop_caches
  cd "$1" || return 1
  md5sum -c /tmp/src/SUMS 2>&1 | grep -v ': OK$' && return 1
  [ "$(ls | wc -l)" = "$(wc -l </tmp/src/SUMS)" ]
}

make_entries() { # directory, count
  mkdir -p "$1" && cd "$1" || return 1
  for number in $(seq "$2"); do
    : >"entry-with-a-longer-name-$number" || return 1
  done
}

check_entries() {
  drop_caches
  [ "$(ls "$1" | sort)" = "$(seq "$2" | sed 's/^/entry-with-a-longer-name-/' | sort)" ]
}

# A target of 900 bytes: nine components of 99 letters, each with a slash.
symlink_target() {
  component=$(head -c 99 /dev/zero | tr '\0' x)
  for _ in 1 2 3 4 5 6 7 8 9; do printf '%s/' "$component"; done
}

check_symlink() { # path
  ln -s "$(symlink_target)" "$1" || return 1
  drop_caches
  [ "$(readlink "$1")" = "$(symlink_target)" ] && [ "$(readlink "$1" | tr -d '\n' | wc -c)" = 900 ]
}

check_changes() { # directory: rename, remove, truncate, append
  mkdir -p "$1" && cd "$1" || return 1
  head -c 100001 /dev/urandom >/tmp/change
  cp /tmp/change a && mv a b || fail "rename"
  drop_caches
  [ ! -e a ] && cmp b /tmp/change || fail "content after rename"
  truncate -s 12345 b && truncate -s 12345 /tmp/change
  drop_caches
  cmp b /tmp/change || fail "content after truncate"
  truncate -s 70001 b && truncate -s 70001 /tmp/change
  drop_caches
  cmp b /tmp/change || fail "content after growing by truncate"
  echo "appended line" >>b && echo "appended line" >>/tmp/change
  head -c 33333 /tmp/change >/tmp/tail && cat /tmp/tail >>b && cat /tmp/tail >>/tmp/change
  drop_caches
  cmp b /tmp/change || fail "content after append"
  mkdir sub && touch sub/x && rm sub/x && rmdir sub || fail "remove"
  cp /tmp/change c && rm c && [ ! -e c ] || fail "remove of a file"
  [ "$(ls)" = b ] || fail "left over: $(ls)"
}

# Slow, steady I/O for the restart cases: each file is written, made durable and read back later.
churn_write() { # directory, files, bytes each
  mkdir -p "$1" && cd "$1" || return 1
  head -c "$3" /dev/urandom >/tmp/churn.base
  : >/tmp/churn.SUMS
  for number in $(seq "$2"); do
    {
      echo "file $number"
      cat /tmp/churn.base
    } >/tmp/churn.one
    dd if=/tmp/churn.one of="churn$number" bs=64k conv=fsync 2>/dev/null || fail "write of churn$number"
    md5sum </tmp/churn.one | sed "s/-$/churn$number/" >>/tmp/churn.SUMS
  done
}

churn_check() {
  drop_caches
  cd "$1" || return 1
  md5sum -c /tmp/churn.SUMS 2>&1 | grep -v ': OK$' && return 1
  return 0
}

# --- Connections without data. ucmatose waits for the server to hang up, so it is ended when the gateway has all its connections. ---

connect_many() { # server, port, connections
  ucmatose -s "$1" -p "$2" -c "$3" -C 0 >/tmp/ucmatose 2>&1 </dev/null &
  echo $! >/tmp/ucmatose.pid
}

hang_up() {
  kill "$(cat /tmp/ucmatose.pid)" || {
    tail -5 /tmp/ucmatose
    return 1
  }
  while kill -0 "$(cat /tmp/ucmatose.pid)" 2>/dev/null; do
    sleep 0.05
  done
}

# --- Kerberos: /etc/krb5.conf and /etc/krb5.keytab are there. ---

gssd_up() {
  mkdir -p /var/lib/nfs/rpc_pipefs
  mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs || return 1
  /sbin/modprobe rpcsec_gss_krb5 || return 1
  rpc.gssd -f -vv -p /var/lib/nfs/rpc_pipefs >/tmp/gssd.log 2>&1 &
}

# A client does not send a call that would come too late for the server's window of sequence numbers: it encodes it anew, under a
# new number, and may do so for ever. Nothing but its trace tells.
count_encodings_anew() {
  grep -q ' /sys/kernel/tracing ' /proc/mounts || mount -t tracefs tracefs /sys/kernel/tracing || return 1
  echo 'ret == 1' >/sys/kernel/tracing/events/rpcgss/rpcgss_need_reencode/filter || return 1
  echo 1 >/sys/kernel/tracing/events/rpcgss/rpcgss_need_reencode/enable || return 1
  : >/sys/kernel/tracing/trace
}

encodings_anew() { grep -c 'reencode needed' /sys/kernel/tracing/trace || true; }

# Large WRITEs as many at once as the client has credits for, and small calls beside them all the while. Each file is read back from
# the server in the end.
mixed_load() { # directory, writers, KiB of each, loops of small calls
  mkdir -p "$1" && cd "$1" || return 1
  head -c $(($3 * 1024)) /dev/urandom >/tmp/mixed.base
  make_entries small 20 || return 1
  cd "$1" && rm -f /tmp/mixed.over /tmp/mixed.failed || return 1
  looks=""
  for _ in $(seq "$4"); do
    while [ ! -e /tmp/mixed.over ]; do ls -l small >/dev/null || touch /tmp/mixed.failed; done &
    looks="$looks $!"
  done
  writes=""
  for number in $(seq "$2"); do
    dd if=/tmp/mixed.base of="large$number" bs=1M conv=fsync 2>/dev/null || touch /tmp/mixed.failed &
    writes="$writes $!"
  done
  # shellcheck disable=SC2086
  wait $writes
  touch /tmp/mixed.over
  # shellcheck disable=SC2086
  wait $looks
  [ ! -e /tmp/mixed.failed ] || return 1
  drop_caches
  for number in $(seq "$2"); do
    cmp "large$number" /tmp/mixed.base || return 1
  done
}

# --- A kernel NFS server, the reference peer of `run.py --reference`. ---

nfsd_up() { # exported directory
  mkdir -p "$1" /run/rpcbind /var/lib/nfs/sm /var/lib/nfs/rpc_pipefs
  touch /var/lib/nfs/etab /var/lib/nfs/rmtab /var/lib/nfs/state
  mount -t tmpfs -o size=400m export "$1"
  chmod 1777 "$1"
  /sbin/ip link set lo up
  rpcbind || return 1
  /sbin/modprobe nfsd || return 1
  mount -t nfsd nfsd /proc/fs/nfsd || return 1
  exportfs -i -o rw,sync,no_root_squash,no_subtree_check,insecure,fsid=0 "*:$1" || return 1
  rpc.mountd -p 12050 || return 1
  nfsd_start
}

nfsd_start() {
  rpc.nfsd -G 10 -L 10 --rdma=20049 4 || return 1
  echo Y >/proc/fs/nfsd/v4_end_grace 2>/dev/null # else OPEN is refused for 90 s
  grep -q 'rdma 20049' /proc/fs/nfsd/portlist
}

nfsd_stop() { rpc.nfsd 0; }
