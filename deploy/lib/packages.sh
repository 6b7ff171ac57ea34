# shellcheck shell=bash disable=SC2034  # ensure_packages takes the lists by their names
# Sourced by deploy/quickstart.sh and tests/run.sh: makes sure that Debian packages are there.
#
#   ensure_packages build      what compiling needs
#   ensure_packages interop    what the guest and Ganesha need
#   ensure_packages checks     linters and oracles of the test suites
#   ensure_packages container  what the container image is built and tried with; root's, as its test is
#   ensure_packages bench      what the benches measure beside us; they do without it
#   offer_npm                  npm, which the live page is built with; everything else goes without
#
# Quick when nothing is missing: one dpkg-query, no network. A user who may not install gets the command for somebody who may.

packages_build='g++ ninja-build meson pkg-config ccache python3 libdpdk-dev librte-net-memif23 librte-net-vhost23 librte-net-af-packet23
  librte-net-ring23 librte-net-null23 librte-net-pcap23 librte-mempool-ring23 librte-mempool-stack23 libibverbs-dev librdmacm-dev libtbb-dev libgtest-dev libgmock-dev
  prometheus-cpp-dev libisal-dev libtomlplusplus-dev libcli11-dev libfmt-dev nlohmann-json3-dev libbenchmark-dev
  librapidcheck-dev libssl-dev libyaml-cpp-dev clang-14 libbpf-dev librte-net-af-xdp23 systemtap-sdt-dev'
packages_interop='qemu-system-x86 nfs-ganesha nfs-ganesha-vfs rpcbind iproute2 cpio kmod busybox-static python3 make gcc-12 xz-utils libelf1
  keepalived curl krb5-kdc krb5-admin-server librte-bus-pci23 librte-bus-vdev23 librte-net-e1000-23 librte-net-vmxnet3-23 librte-net-virtio23'
packages_checks='apache2-utils openssl prometheus python3-prometheus-client faketime python3-yaml clang-14 clang-tidy-14 clang-format-14 libclang-rt-14-dev tshark dpdk dpdk-dev chromium
  chromium-driver bpftrace black flake8 shellcheck shfmt eslint zsh fish charon-systemd strongswan-swanctl libcharon-extra-plugins
  libstrongswan-standard-plugins nftables'
packages_bench='dpdk dpdk-dev libfabric-bin ucx-utils valgrind'
packages_container='podman runc netavark iptables mmdebstrap dpkg-dev debhelper fakeroot help2man'
packages_npm='npm'

# Those of the given packages that are not installed, on one line.
missing_packages() {
  local installed package missing=''
  # The status of packages that dpkg has never heard of goes to stderr, with exit status 1: both are expected.
  installed=" $(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' | tr '\n' ' ') "
  for package in "$@"; do
    case "$installed" in
    *" $package "*) ;;
    *) missing="$missing $package" ;;
    esac
  done
  echo "${missing# }"
}

ensure_packages() {
  local group list wanted='' missing
  for group in "$@"; do
    list="packages_${group}"
    wanted="$wanted ${!list}"
  done
  # shellcheck disable=SC2086  # one argument per package
  missing=$(missing_packages $wanted)
  [ -z "$missing" ] && return 0
  if ! command -v apt-get >/dev/null; then
    echo "These packages are needed, under their Debian 12 names, and this machine has no apt-get: $missing" >&2
    return 1
  fi
  local as_root=''
  if [ "$(id -u)" -ne 0 ]; then
    # sudo that asks for a password is fine where somebody can type one.
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
      as_root='sudo'
    else
      echo "These Debian packages are missing, and this user may not install them: $missing" >&2
      echo "Ask an administrator to run:" >&2
      echo "  apt-get update && apt-get install --no-install-recommends $missing" >&2
      return 1
    fi
  fi
  echo "Installing Debian packages: $missing"
  local log
  log=$(mktemp) || return 1
  # Services of these packages (rpcbind, prometheus, ganesha) are not wanted on this machine: only their programs are. sudo
  # clears the environment, so the settings go through env.
  # shellcheck disable=SC2086  # one argument per package
  if $as_root apt-get update -q >"$log" 2>&1 &&
    $as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -q --no-install-recommends $missing >>"$log" 2>&1; then
    rm -f "$log"
    return 0
  fi
  tail -n 15 "$log" >&2
  echo "apt-get could not install: $missing" >&2
  echo "Its whole output is in $log. Is the machine online, and is it Debian 12?" >&2
  return 1
}

# npm may have come with another distribution's nodejs, which Debian's package of it would conflict with.
offer_npm() {
  command -v npm >/dev/null && return 0
  ensure_packages npm || echo "Going on without npm: causewayd is built without its live page." >&2
}
