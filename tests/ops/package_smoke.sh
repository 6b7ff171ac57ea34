#!/usr/bin/env bash
# Installs the Debian packages into a Debian 12 of their own, made by debootstrap, and tries the programs there; boots it with
# systemd-nspawn and tries the service under the real service manager (service_smoke.sh); removes them again.
#
#   tests/ops/package_smoke.sh PACKAGES_DIR [TREE]
#
# PACKAGES_DIR is what deploy/build-deb.sh filled. TREE (default: a temporary directory, removed at the end) is made when it is
# not there, and kept, so that a second run is quick. Root, debootstrap and Debian's mirror. The last line is "N passed, N failed".
set -u
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

fail() {
  echo "tests/ops/package_smoke.sh: $*" >&2
  exit 2
}
[ $# -ge 1 ] || fail "which packages? See the head of this file"
here=$(dirname "$(realpath "$0")")
packages=$(realpath "$1")
ls "$packages"/causeway_*.deb >/dev/null 2>&1 || fail "no causeway_*.deb in $packages; deploy/build-deb.sh makes them"
[ "$(id -u)" -eq 0 ] || fail "a chroot takes root"
needs() { command -v "$1" >/dev/null || fail "there is no $1; apt-get install --no-install-recommends $2"; }
needs debootstrap debootstrap
needs systemd-nspawn systemd-container
needs nsenter util-linux
needs ip iproute2

work=$(mktemp -d)
tree=${2:-$work/tree}
mounted=''
mount_proc() { mount -t proc proc "$tree/proc" && mounted=1; }
umount_proc() {
  [ -z "$mounted" ] || umount "$tree/proc" || umount --lazy "$tree/proc"
  mounted=''
}
# shellcheck source=service_smoke.sh
. "$here/service_smoke.sh"
clean() {
  clean_service
  umount_proc
  rm -rf --one-file-system "$work"
}
trap clean EXIT

if [ ! -x "$tree/usr/bin/dpkg" ]; then
  echo "== debootstrap into $tree"
  debootstrap --variant=minbase bookworm "$tree" "$mirror" >"$work/debootstrap.log" 2>&1 ||
    {
      tail -n 5 "$work/debootstrap.log" >&2
      fail "debootstrap did not finish"
    }
fi
mount_proc || fail "no /proc in $tree"
# Services are not to be started in a chroot.
printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
chmod +x "$tree/usr/sbin/policy-rc.d"
rm -rf "$tree/packages"
mkdir "$tree/packages"
cp "$packages"/causeway*.deb "$tree/packages/"

inside() { chroot "$tree" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
passed=0
failed=0
# check NAME WORD command...: it ends with status 0 and says WORD.
check() {
  local name=$1 word=$2
  shift 2
  if "$@" >"$work/said" 2>&1 && grep -q -- "$word" "$work/said"; then
    echo "ok $name"
    passed=$((passed + 1))
  else
    echo "FAIL $name: $* said:"
    tail -n 15 "$work/said"
    failed=$((failed + 1))
  fi
}
# A tree that was kept may still have them from a run that did not end.
install_packages() {
  inside sh -c 'apt-get purge -y -q "causeway*" >/dev/null 2>&1; rm -rf /etc/causeway'
  inside apt-get update -q && inside sh -c 'apt-get install -y -q --no-install-recommends /packages/causeway*.deb'
}

check "the packages install, with what they depend on" "" install_packages
check "causewayd --version" "^causewayd [0-9]" inside causewayd --version
check "causewayd --check-config on what is shipped" "/etc/causeway/causeway.toml: fine" inside causewayd --check-config
check "causewayctl --help" "status" inside causewayctl --help
check "causeway-load --help" "--server" inside causeway-load --help
check "the service's user is there" "causeway" inside id causeway
check "the configuration is the service's to read, and nobody else's" "^640 root causeway$" \
  inside stat -c '%a %U %G' /etc/causeway/causeway.toml
check "the service's user can read it" "fine" inside setpriv --reuid causeway --regid causeway --init-groups causewayd --check-config
check "the service is installed, and not enabled" "absent" \
  inside sh -c 'test -f /lib/systemd/system/causewayd.service && ! ls /etc/systemd/system/*.wants/causewayd.service 2>/dev/null && echo absent'
# shellcheck disable=SC2016  # the inner shell expands it
check "the unit refers to programs that are there" "there" \
  inside sh -c 'for p in $(sed -n "s/^Exec[A-Za-z]*=\([^ ]*\).*/\1/p" /lib/systemd/system/causewayd.service); do test -x $p || exit 1; done; echo there'
check "the pages of causewayctl and its file are there" "causeway.toml.5" inside sh -c 'dpkg -L causeway | grep -A9 man/ && dpkg -L causeway | grep completions/causewayctl && \
  dpkg -L causeway | grep completions/_causewayctl && dpkg -L causeway | grep completions.d/causewayctl.fish'
doc=/usr/share/doc/causeway
# shellcheck disable=SC2016  # the inner shell expands it
check "the page that the unit points to is there" "there" \
  inside sh -c 'test -f "$(sed -n "s/^Documentation=.*file:\/\/\([^ ]*\).*/\1/p" /lib/systemd/system/causewayd.service)" && echo there'
check "rules, alerts, dashboards, runbook and the files to copy are there" "there" inside sh -c \
  "cd $doc/deploy && ls monitoring/prometheus/causeway.alerts.yml monitoring/grafana/causeway-overview.json monitoring/RUNBOOK.md \
   ipsec/check_policy.py keepalived/keepalived.conf kubernetes/base/daemonset.yaml container/Containerfile >/dev/null && echo there"
check "the man pages are there" "causewayd.8" inside sh -c 'dpkg -L causeway causeway-load | grep man/'

inside apt-get install -y -q --no-install-recommends systemd systemd-sysv dbus librte-net-memif23 curl >"$work/said" 2>&1 ||
  {
    tail -n 5 "$work/said" >&2
    fail "systemd does not install"
  }
check_service
mount_proc

check "they are removed with nothing left but the configuration" "^/etc/causeway/causeway.toml$" inside sh -c \
  'apt-get remove -y -q causeway causeway-load causeway-doc >/dev/null && ! test -e /usr/sbin/causewayd && ls /etc/causeway/*'
check "they are purged whole" "gone" inside sh -c \
  'apt-get purge -y -q causeway causeway-load causeway-doc >/dev/null && ! test -e /etc/causeway/causeway.toml && echo gone'
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
