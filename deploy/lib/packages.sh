# Sourced by deploy/quickstart.sh and tests/run.sh: makes sure that Debian packages are there.
#
#   ensure_packages build      what compiling needs
#   ensure_packages interop    what the guest and Ganesha need
#   ensure_packages checks     linters and oracles of the test suites
#
# Quick when nothing is missing: one dpkg-query, no network.

packages_build='g++ ninja-build meson pkg-config ccache python3 libdpdk-dev librte-net-memif23 librte-net-vhost23 librte-net-af-packet23
  librte-net-ring23 librte-net-null23 librte-net-pcap23 librte-mempool-ring23 libibverbs-dev librdmacm-dev libtbb-dev libgtest-dev libgmock-dev
  prometheus-cpp-dev libisal-dev libtomlplusplus-dev libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libbenchmark-dev
  librapidcheck-dev'
packages_interop='qemu-system-x86 nfs-ganesha nfs-ganesha-vfs rpcbind iproute2 cpio kmod busybox-static python3'
packages_checks='prometheus clang-14 clang-format-14 libclang-rt-14-dev tshark dpdk'

ensure_packages() {
  local group list missing=''
  for group in "$@"; do
    list="packages_${group}"
    local package
    for package in ${!list}; do
      if ! dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed; then
        missing="$missing $package"
      fi
    done
  done
  [ -z "$missing" ] && return 0
  local as_root=''
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null; then
      as_root='sudo'
    else
      echo "These Debian packages are missing, and this user may not install them:$missing" >&2
      echo "Ask an administrator to run: apt-get install$missing" >&2
      return 1
    fi
  fi
  echo "Installing Debian packages:$missing"
  $as_root apt-get update -q >/dev/null || { echo "apt-get update failed" >&2; return 1; }
  # Services of these packages (rpcbind, prometheus, ganesha) are not wanted on this machine: only their programs are.
  DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 $as_root apt-get install -y -q --no-install-recommends $missing >/dev/null ||
    { echo "apt-get could not install:$missing" >&2; return 1; }
}
