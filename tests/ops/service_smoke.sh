# shellcheck shell=bash disable=SC2154  # who sources it sets tree and work
# The service under a real service manager: boots the tree of package_smoke.sh with systemd-nspawn and tries the unit there. To be
# sourced, after `check`, `fail`, `inside` and `umount_proc`; needs $tree with the packages installed, and $work. clean_service
# ends the machine, in whatever state it is. The machine's network has loopback and a pair of veth interfaces, one for the gateway
# and one for the load; it ends with the machine. Every wait has an end.

machine=''

configure_service() {
  cat >"$tree/etc/causeway/causeway.toml" <<'CONFIGURATION'
[gateway]
instance = "unit"
[[port]]
device = "net_memif0,role=server,socket=/run/causeway/link.sock,socket-abstract=no,bsize=8192"
mtu = 4500
addresses = ["10.9.0.1/24"]
[[listener]]
backend = "bench"
[[backend]]
name = "bench"
type = "builtin"
programs = ["bench"]
[metrics]
listen = "127.0.0.1:9465"
CONFIGURATION
  inside systemctl enable causewayd
}

# DPDK wants /sys/module, which systemd-nspawn hides when it makes the network namespace itself. In one that it did not make, it
# neither brings up loopback nor leaves the machine CAP_NET_ADMIN.
switch_on() {
  # shellcheck disable=SC2016  # the inner shell expands it
  unshare --net sh -c 'ip link set lo up && ip link add gateway mtu 4500 type veth peer name load mtu 4500 &&
    ip link set gateway up && ip link set load up &&
    exec systemd-nspawn --quiet --register=no --keep-unit --capability=CAP_NET_ADMIN --directory="$1" --boot' - "$tree" \
    >"$work/console" 2>&1 </dev/null &
  machine=$!
}

# The machine's process 1, seen from here: a child of systemd-nspawn that has become systemd.
first_process() { pgrep --parent "$machine" --exact systemd; }

# booted COMMAND...: runs it in the machine.
booted() {
  local first
  first=$(first_process) && [ "$first" -gt 1 ] || {
    echo "the machine is not up"
    return 1
  }
  timeout 120 nsenter --target "$first" --all \
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 SYSTEMD_PAGER='' "$@" </dev/null
}

clean_service() {
  [ -n "$machine" ] || return 0
  booted systemctl poweroff >/dev/null 2>&1
  until_true 20 is_gone "$machine"
  kill -KILL "$machine" 2>/dev/null
  wait "$machine" 2>/dev/null
  machine=''
}
is_gone() { ! kill -0 "$1" 2>/dev/null; }

# until_true SECONDS command...
until_true() {
  local end=$((SECONDS + $1))
  shift
  while ! "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.2
  done
}

of_service() { booted systemctl show --property="$1" --value causewayd; }
# The service's process, in the machine's numbers; fails without one, so that nobody sends a signal to process 0.
main_pid() {
  local pid
  pid=$(of_service MainPID) && [ "${pid:-0}" -gt 1 ] && echo "$pid"
}
asks() { booted curl -s --max-time 5 "http://127.0.0.1:9465/$1"; }
# Active is what a Type=notify service is when it listens.
serves() { [ "$(of_service ActiveState)" = active ] && booted curl -sf --max-time 5 http://127.0.0.1:9465/healthz; }
# A memif link is up while a client is attached to it: before that there is no way to the gateway, and readiness says so.
is_ready() { booted curl -sf --max-time 5 http://127.0.0.1:9465/readyz; }
is_another() { [ "$(main_pid || echo "$1")" != "$1" ] && serves; }
journal() { booted journalctl --boot --unit causewayd --output cat; }
journal_says() { journal | grep -q -- "$1"; }

starts() {
  until_true 90 serves && serves && return
  tail -n 5 "$work/console"
  journal
  return 1
}

has_rights() {
  local pid
  pid=$(main_pid) || return 1
  booted sh -c "echo \$(stat -c %U:%G /proc/$pid) \$(sed -n 's/^\(CapEff\|CapBnd\|NoNewPrivs\):\s*/\1=/p' /proc/$pid/status)"
}

# load_over NETWORK DEVICE
load_over() {
  booted causeway-load --device "$2" --address "10.9.$1.2/24" --server "10.9.$1.1" --mtu 4500 --seconds 1 --warmup 0
}
load_over_memif() { load_over 0 net_memif0,role=client,socket=/run/causeway/link.sock,socket-abstract=no,bsize=8192; }
load_over_packet_sockets() { load_over 1 net_af_packet0,iface=load,framesz=8192,blocksz=65536,framecnt=512; }

status_as() { booted setpriv --reuid nobody --regid "$1" --clear-groups causewayctl --socket /run/causeway/unit.sock status; }
refuses_strangers() { ! status_as nogroup; }

reloads() {
  local before
  before=$(main_pid) || return 1
  booted sh -c 'printf "[log]\nlevel = \"debug\"\n" >>/etc/causeway/causeway.toml' && booted systemctl reload causewayd &&
    until_true 20 journal_says 'causeway.toml read again' && until_true 20 serves && [ "$(main_pid)" = "$before" ] && journal
}

reload_refuses_a_mistake() {
  local before
  before=$(main_pid) || return 1
  booted sh -c 'echo "nonsense = 1" >>/etc/causeway/causeway.toml'
  booted systemctl reload causewayd && {
    echo "the reload succeeded"
    return 1
  }
  booted sed -i '/nonsense/d' /etc/causeway/causeway.toml
  serves && [ "$(main_pid)" = "$before" ] && journal
}

# restarts_in_place COMMAND...: the next program is in the process of the one before, and the service manager sees no end.
restarts_in_place() {
  local before
  before=$(main_pid) || return 1
  # It answers a moment before systemd has heard that it is ready.
  booted "$@" && until_true 20 serves && [ "$(main_pid)" = "$before" ] && [ "$(of_service NRestarts)" = 0 ] && journal | tail -n 20
}

restarts_a_hung_one() {
  local before
  before=$(main_pid) || return 1
  booted kill -STOP "$before" || return 1
  until_true 90 is_another "$before" || {
    booted systemctl status causewayd
    return 1
  }
  [ "$(of_service NRestarts)" = 1 ] && journal
}

add_packet_sockets() {
  booted mkdir -p /run/systemd/system/causewayd.service.d &&
    booted cp /usr/share/causeway/systemd/drop-ins/af-packet.conf /run/systemd/system/causewayd.service.d/ || return 1
  cat >>"$tree/etc/causeway/causeway.toml" <<'CONFIGURATION'
[[port]]
device = "net_af_packet0,iface=gateway,framesz=8192,blocksz=65536,framecnt=512"
mtu = 4500
addresses = ["10.9.1.1/24"]
CONFIGURATION
  booted systemctl daemon-reload && {
    booted systemctl restart causewayd
    starts && until_true 20 is_ready && is_ready
  }
}

stops_in_order() {
  local run
  run=$(of_service InvocationID) && booted systemctl stop causewayd && [ "$(of_service Result)" = success ] &&
    booted journalctl --output cat "_SYSTEMD_INVOCATION_ID=$run"
}

check_service() {
  configure_service >"$work/said" 2>&1 || {
    cat "$work/said"
    fail "the service cannot be enabled"
  }
  umount_proc # the machine is to have one of its own
  switch_on
  check "systemd starts the service, and it serves" "" starts
  check "it is not ready as long as there is no link" "the link of net_memif0 is down" asks readyz
  check "its status says what it does" "serving, 0 connections" booted systemctl status causewayd
  check "it has a user of its own and no capability" \
    "^causeway:causeway CapEff=0000000000000000 CapBnd=0000000000000000 NoNewPrivs=1$" has_rights
  check "a load reaches it over memif, whose socket is in its runtime directory" "wrong answers *0$" load_over_memif
  check "the journal finds the client's connections" "^connection from 10.9.0.2 .* accepted" \
    booted journalctl --output cat CAUSEWAY_CLIENT=10.9.0.2 CAUSEWAY_INSTANCE=unit
  check "it serves the live page" "<title>Causeway" booted curl -sf --max-time 5 --compressed http://127.0.0.1:9465/
  check "members of its group may ask it" "unit" status_as causeway
  check "nobody else may" "ermission denied" refuses_strangers
  check "a reload reads the configuration again" "causeway.toml read again" reloads
  check "a reload of a wrong configuration fails, and changes nothing" "nonsense" reload_refuses_a_mistake
  check "a restart has the next program in the same process" "connections of the process before go on" \
    restarts_in_place causewayctl --socket /run/causeway/unit.sock restart
  check "so has an upgrade of the package" "connections of the process before go on" \
    restarts_in_place sh -c 'dpkg -i /packages/causeway_*.deb && test -e /run/causeway/unit.sock'
  check "a load reaches it after that, too" "wrong answers *0$" load_over_memif
  check "the watchdog restarts one that hangs" "Watchdog timeout" restarts_a_hung_one
  check "a load reaches it after that" "wrong answers *0$" load_over_memif
  check "with its drop-in it serves on packet sockets as well" "" add_packet_sockets
  check "it then has CAP_NET_RAW and CAP_NET_ADMIN" \
    "^causeway:causeway CapEff=0000000000003000 CapBnd=0000000000003000 NoNewPrivs=1$" has_rights
  check "a load reaches it over packet sockets" "wrong answers *0$" load_over_packet_sockets
  check "it stops in order" "^stopped\| stopped$" stops_in_order
  clean_service
}
