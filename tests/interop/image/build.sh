#!/bin/sh
# Builds guests of the interop lab: Debian kernels and an initramfs for each, all made of Debian packages that are
# downloaded and unpacked but never installed. Nothing outside the cache directory is written.
#
#   build.sh [SERIES]...    of the kernel: 6.1, Debian 12's own and the default, or 6.12
#
# Result, in $CAUSEWAY_CACHE (default /var/cache/causeway-tests):
#   guest/6.1/vmlinuz  guest/6.1/initrd.gz    what QEMU boots; guest/6.12/ has the same of the newer kernel
#   testpmd/                                  dpdk-testpmd, unpacked (used to prove the wiring without causewayd)
# A guest is rebuilt only when its stamp, a hash of package versions and of the files that go in, differs.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
guest_files=$here/../guest
cache=${CAUSEWAY_CACHE:-/var/cache/causeway-tests}
size_limit_mb=25

# What runs in the guest. Their shared libraries come from the second list; the copy follows the ELF links
# inside the unpacked tree, so a library missing here is an error of the build, not of a test.
tool_packages="busybox-static iproute2 kmod rdma-core ibverbs-utils rdmacm-utils perftest nfs-common
  rpcbind nfs-kernel-server"
library_packages="libc6 ibverbs-providers libblkid1 libbpf0 libbpf1 libbsd0 libcap2 libcom-err2 libelf1
  libevent-core-2.1-7 libgcc-s1 libgssapi-krb5-2 libibumad3 libibverbs1 libk5crypto3 libkeyutils1 libkmod2
  libkrb5-3 libkrb5support0 liblzma5 libmd0 libmnl0 libmount1 libnl-3-200 libnl-route-3-200 libnsl2 libpci3
  libpcre2-8-0 librdmacm1 libselinux1 libsqlite3-0 libssl3 libsystemd0 libtirpc3 libtirpc-common libudev1
  libuuid1 libwrap0 libxtables12 libzstd1 netbase zlib1g libcap-ng0 libgcrypt20 libgpg-error0 liblz4-1"

# Programs of the guest, by path in the unpacked tree. busybox supplies the rest.
programs="sbin/ip sbin/tc usr/bin/rdma sbin/rdma bin/kmod
  usr/bin/ibv_devinfo usr/bin/ibv_devices usr/bin/rping usr/bin/ucmatose
  usr/bin/ib_send_bw usr/bin/ib_write_bw usr/bin/ib_read_bw usr/bin/ib_atomic_bw
  usr/bin/ib_send_lat usr/bin/ib_write_lat usr/bin/ib_read_lat usr/bin/ib_atomic_lat
  sbin/mount.nfs usr/sbin/nfsstat usr/sbin/showmount usr/sbin/rpc.gssd
  sbin/rpcbind usr/sbin/exportfs usr/sbin/rpc.mountd usr/sbin/rpc.nfsd"

# Kernel modules; what they depend on is added from modules.dep. crc32_generic and crc32_pclmul look like
# luxury but without one of them `rdma link add` fails: rxe asks the crypto layer for its iCRC.
modules="virtio_pci virtio_net virtio_rng virtio_console ifb veth dummy 8021q bridge
  rdma_rxe rdma_ucm ib_uverbs ib_umad iw_cm rpcrdma nfs nfsv3 nfsv4 nfsd
  sch_netem sch_ingress sch_tbf act_mirred cls_matchall cls_u32
  tun sch_multiq cls_flower act_gact act_skbedit vfio_pci vfio_iommu_type1
  rpcsec_gss_krb5 cts cbc ecb hmac aesni_intel sha1_generic sha1_ssse3 sha256_generic sha256_ssse3 authenc cmac
  crc32_generic crc32_pclmul crc32c_generic crc32c_intel libcrc32c"

say() { echo "image: $*" >&2; }
die() {
  echo "image: $*" >&2
  exit 1
}

# Debian 12's own kernel is 6.1. It carries 6.12 too, in packages without a name that stays the same.
kernel_package() { # series
  case $1 in
  6.1) apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1 ;;
  *) apt-cache pkgnames "linux-image-$1." 2>/dev/null | grep -E '^linux-image-[0-9.]+\+deb12-amd64$' | sort -V | tail -n 1 ;;
  esac
}

# Keeps only names this release knows (a library's package name changes with its soname).
known_packages() {
  apt-cache policy "$@" 2>/dev/null | awk '/^[^ ].*:$/ { name = $1; sub(":$", "", name) }
    /^  Candidate:/ && $2 != "(none)" { print name }'
}

stamp_of() {
  {
    apt-cache policy "$@" | awk '/^[^ ]/ { name = $1 } /^  Candidate:/ { print name, $2 }'
    cat "$0" "$guest_files"/*
  } | sha256sum | cut -d' ' -f1
}

unpack() { # directory, packages...: downloads and unpacks
  tree=$1
  shift
  rm -rf "$tree" "$tree.debs"
  mkdir -p "$tree" "$tree.debs"
  (cd "$tree.debs" && apt-get -qq -o APT::Sandbox::User=root download "$@") || die "cannot download: $*"
  for deb in "$tree.debs"/*.deb; do
    dpkg -x "$deb" "$tree"
  done
  rm -rf "$tree.debs"
}

# Paths of the libraries a program of the tree needs, as the tree's own loader finds them.
libraries_of() {
  chroot "$tools" /lib64/ld-linux-x86-64.so.2 --list "/$1" 2>/dev/null | awk '
    /not found/ { print "MISSING " $1 }
    $2 == "=>" && $3 ~ /^\// { print $3 }
    $1 ~ /^\/lib64/ { print $1 }'
}

copy_program() { # path in the tree
  install -D -m 755 "$tools/$1" "$root/$1"
  libraries_of "$1" | while read -r library rest; do
    [ "$library" != MISSING ] || die "$1 needs $rest; add its package to library_packages"
    [ -e "$root$library" ] || install -D -m 755 "$tools$library" "$root$library"
  done || exit 1
}

copy_modules() { # unpacked kernel, its release
  kernel=$1 release=$2
  moddir=lib/modules/$release
  chroot_depmod "$kernel" "$release"
  mkdir -p "$root/$moddir"
  for module in $modules; do
    # modules.dep: "path: dependency dependency ...", names with - or _.
    pattern=$(echo "$module" | sed 's/_/[-_]/g')
    line=$(grep -E "/$pattern\.ko[.a-z]*:" "$kernel/$moddir/modules.dep") || continue
    for file in $(echo "$line" | tr -d ':'); do
      [ -e "$root/$moddir/$file" ] || install -D -m 644 "$kernel/$moddir/$file" "$root/$moddir/$file"
    done
  done
  cp "$kernel/$moddir"/modules.builtin* "$kernel/$moddir/modules.order" "$root/$moddir/"
  chroot_depmod "$root" "$release"
}

# siw, the kernel's iWARP in software, is not among Debian's modules. Its source is, and builds in ten seconds.
add_siw() { # series, release
  siw=$work/siw
  unpack "$siw" "linux-headers-$2" "linux-headers-${2%-amd64}-common" "linux-kbuild-$1" "linux-source-$1"
  headers=$siw/usr/src/linux-headers-$2
  sed -i "s#include /usr/src#include $siw/usr/src#" "$headers/Makefile"
  tar -C "$siw" -xf "$siw/usr/src/linux-source-$1.tar.xz" "linux-source-$1/drivers/infiniband/sw/siw"
  module=$siw/linux-source-$1/drivers/infiniband/sw/siw
  make -s -C "$headers" M="$module" CONFIG_RDMA_SIW=m modules >"$work/siw.log" 2>&1 || die "siw: $(tail -n 3 "$work/siw.log")"
  strip --strip-debug "$module/siw.ko"
  install -D -m 644 "$module/siw.ko" "$root/lib/modules/$2/extra/siw.ko"
  rm -rf "$siw"
}

# depmod of the unpacked kmod package, so that the host needs none.
chroot_depmod() {
  "$tools/lib64/ld-linux-x86-64.so.2" --library-path "$tools/lib/x86_64-linux-gnu:$tools/usr/lib/x86_64-linux-gnu" \
    --argv0 depmod "$tools/bin/kmod" -b "$1" "$2"
}

write_etc() {
  etc=$root/etc
  mkdir -p "$etc/libibverbs.d"
  cp "$tools/etc/services" "$tools/etc/protocols" "$tools/etc/rpc" "$tools/etc/netconfig" "$etc/"
  printf 'root:x:0:0:root:/root:/bin/sh\n_rpc:x:106:65534::/run/rpcbind:/bin/false\nstatd:x:107:65534::/:/bin/false\nnobody:x:65534:65534::/:/bin/false\n' >"$etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$etc/group"
  printf '127.0.0.1 localhost\n::1 localhost\n' >"$etc/hosts"
  printf 'passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\nrpc: files\nnetgroup: files\n' >"$etc/nsswitch.conf"
  # Only rxe and siw: every other provider prints a warning for the device it does not find.
  for provider in rxe siw; do
    echo "driver $provider" >"$etc/libibverbs.d/$provider.driver"
    for library in "$tools"/usr/lib/x86_64-linux-gnu/libibverbs/lib"$provider"-*.so; do
      install -D -m 755 "$library" "$root/usr/lib/x86_64-linux-gnu/libibverbs/$(basename "$library")"
    done
  done
  # Loaded by name at run time, so no ELF link mentions them; rping dies without libgcc_s.
  for library in "$tools"/lib/x86_64-linux-gnu/libgcc_s.so.1 "$tools"/lib/x86_64-linux-gnu/libnss_files.so.2; do
    install -D -m 755 "$library" "$root/lib/x86_64-linux-gnu/$(basename "$library")"
  done
}

build_guests() { # series...
  work=$cache/build.$$
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' INT TERM
  tools=$work/tools root=$work/root
  mkdir -p "$work"

  say "downloading and unpacking the tools and Linux $*"
  # shellcheck disable=SC2086
  unpack "$tools" $packages
  unpack "$work/testpmd" dpdk-dev

  for dir in proc sys dev run tmp mnt etc bin sbin usr/bin usr/sbin lib usr/lib root lib64 var/lib/nfs/v4recovery; do
    mkdir -p "$root/$dir"
  done
  ln -s ../run "$root/var/run"
  cp "$tools/bin/busybox" "$root/bin/busybox"
  for program in $programs; do
    if [ -e "$tools/$program" ]; then copy_program "$program"; fi
  done
  for link in modprobe insmod rmmod lsmod depmod; do
    ln -sf /bin/kmod "$root/sbin/$link"
  done
  ln -sf mount.nfs "$root/sbin/mount.nfs4"
  for applet in $("$tools/bin/busybox" --list); do
    [ -e "$root/sbin/$applet" ] || [ -L "$root/sbin/$applet" ] || [ "$applet" = busybox ] ||
      ln -s busybox "$root/bin/$applet"
  done
  write_etc
  install -m 755 "$guest_files/init" "$root/init"
  install -m 755 "$guest_files/control" "$root/sbin/control"
  install -D -m 644 "$guest_files/lib.sh" "$root/lib/causeway/lib.sh"

  mkdir -p "$cache/guest"
  cp "$tools/bin/busybox" "$cache/guest/busybox.new"
  mv "$cache/guest/busybox.new" "$cache/guest/busybox"
  for series in "$@"; do
    with_kernel "$series"
  done
  rm -rf "$cache/testpmd"
  mv "$work/testpmd" "$cache/testpmd"
}

with_kernel() { # series: the initramfs with the modules of this kernel
  image=$work/image-$1 unpacked=$work/kernel-$1
  unpack "$unpacked" "$(kernel_package "$1")"
  release=$(ls "$unpacked/lib/modules")
  rm -rf "$root/lib/modules"
  copy_modules "$unpacked" "$release"
  if [ "$1" = 6.1 ]; then # the only series of which there is a source package
    add_siw "$1" "$release"
    chroot_depmod "$root" "$release"
  fi
  mkdir -p "$image"
  (cd "$root" && find . | "$tools/bin/busybox" cpio -o -H newc 2>/dev/null | gzip -1) >"$image/initrd.gz"
  cp "$unpacked/boot/vmlinuz-$release" "$image/vmlinuz"
  rm -rf "$unpacked"
  size_mb=$(($(stat -c %s "$image/initrd.gz") / 1048576))
  [ "$size_mb" -le "$size_limit_mb" ] || die "initramfs of $size_mb MB, more than $size_limit_mb"
  stamp "$1" >"$image/stamp"
  rm -rf "$cache/guest/$1"
  mv "$image" "$cache/guest/$1"
  say "ready: kernel $release (initramfs $size_mb MB)"
}

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # two test runs at once build once

[ $# -gt 0 ] || set -- 6.1
# shellcheck disable=SC2086
packages=$(known_packages $tool_packages $library_packages)
stamp() { # series
  # shellcheck disable=SC2086
  stamp_of "$(kernel_package "$1")" dpdk-dev $packages
}
stale=''
for series in "$@"; do
  if [ -z "$(kernel_package "$series")" ]; then
    [ -e "$cache/guest/$series/stamp" ] || die "no kernel $series in the package lists; run apt-get update"
    say "no package lists; using the guest built earlier"
  elif [ "$(cat "$cache/guest/$series/stamp" 2>/dev/null)" != "$(stamp "$series")" ]; then
    stale="$stale $series"
  fi
done
# shellcheck disable=SC2086
[ -z "$stale" ] || build_guests $stale
