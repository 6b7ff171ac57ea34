#!/usr/bin/env bash
# Builds the Debian packages causeway, causeway-load and causeway-doc from this tree.
#
#   deploy/build-deb.sh [--out DIR] [--work DIR] [--jobs N] [--programs DIR] [--lint]
#
#   --out DIR    where the packages go (default: build-deb/ in the tree, which git ignores)
#   --work DIR   where they are built (default: DIR/work); emptied first
#   --jobs N     compilers at once (default: as many as there are CPUs)
#   --programs DIR  take the programs of this build directory instead of compiling them, to try the packaging: they were not
#                built with the hardening flags of Debian
#   --lint       run lintian over the result
#
# Debian wants debian/ at the top of a source tree, and ours has other things there: the tracked files are copied to the work
# directory, with deploy/debian and deploy/systemd put where debhelper looks for them. CXX='ccache g++' is honoured.
# Exit status: 0 built, 1 not, 2 wrong usage.
set -eu
cd "$(dirname "$0")/.."
root=$PWD

fail() {
  echo "deploy/build-deb.sh: $*" >&2
  exit 1
}
usage() {
  echo "deploy/build-deb.sh: $*; see --help" >&2
  exit 2
}

out="$root/build-deb"
work=''
jobs=$(nproc)
lint=''
programs=''
while [ $# -gt 0 ]; do
  case "$1" in
  --out | --work | --jobs | --programs)
    [ $# -ge 2 ] || usage "$1 needs a value"
    case "$1" in --out) out=$(realpath -m "$2") ;; --work) work=$(realpath -m "$2") ;; --jobs) jobs=$2 ;; --programs) programs=$(realpath -m "$2") ;; esac
    shift
    ;;
  --lint) lint=1 ;;
  -h | --help)
    sed -n '2,15s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift
done
work=${work:-$out/work}

# Package by the program of it that is needed here; dpkg-buildpackage checks the other build dependencies by itself.
needs() { command -v "$1" >/dev/null || fail "there is no $1; apt-get install --no-install-recommends $2"; }
needs git git
needs dpkg-buildpackage dpkg-dev
needs dh debhelper
needs help2man help2man
[ -z "$lint" ] || needs lintian lintian
[ -n "$programs" ] || command -v npm >/dev/null || echo "deploy/build-deb.sh: there is no npm: causewayd will have no live page" >&2
for program in ${programs:+apps/causewayd apps/causewayctl apps/load/causeway-load}; do
  [ -x "$programs/$program" ] || fail "there is no $programs/$program; ninja -C $programs $program"
done
[ -z "$programs" ] || export CAUSEWAY_PROGRAMS="$programs"

version=$(sed -n "s/^ *version: '\(.*\)',$/\1/p" meson.build | head -n 1)
[ -n "$version" ] || fail "no version in meson.build"
# The time of the last commit, so that the same tree gives the same packages.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
tree="$work/causeway-$version"

case "$work" in /?*) ;; *) fail "no work directory" ;; esac
if [ -e "$work" ] && [ ! -e "$work/.causeway-deb-work" ] && [ -n "$(ls -A "$work")" ]; then
  fail "$work is not empty, and not a work directory of this script: name another one by --work"
fi
rm -rf "$tree"
mkdir -p "$tree" "$out"
touch "$work/.causeway-deb-work"

git ls-files -z | tar --null --files-from=- -cf - | tar -xf - -C "$tree"
cp -r deploy/debian "$tree/debian"
cp deploy/systemd/causewayd.service "$tree/debian/causeway.causewayd.service"
cp deploy/systemd/causeway.sysusers "$tree/debian/causeway.sysusers"
cp deploy/systemd/causeway.tmpfiles "$tree/debian/causeway.tmpfiles"
cp deploy/systemd/causeway.default "$tree/debian/causeway.default"
cat >"$tree/debian/changelog" <<END
causeway ($version) unstable; urgency=medium

  * Built from revision $(git rev-parse --short=12 HEAD)$(git diff --quiet HEAD || echo ' with local changes').

 -- $(sed -n 's/^Maintainer: //p' deploy/debian/control)  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END

# debhelper gives the build a home directory of its own; the cache stays where it is.
if command -v ccache >/dev/null; then
  CCACHE_DIR=${CCACHE_DIR:-$(ccache --get-config cache_dir)}
  export CCACHE_DIR
fi
(cd "$tree" && DEB_BUILD_OPTIONS="parallel=$jobs ${DEB_BUILD_OPTIONS:-}" dpkg-buildpackage -b -us -uc)
rm -f "$out"/causeway*.deb
mv "$work"/causeway*.deb "$work"/causeway*.buildinfo "$work"/causeway*.changes "$out/"
if [ -n "$lint" ]; then
  # Packages that nobody publishes have nobody to write to.
  lintian --fail-on error --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$out"/causeway_*.changes
fi
echo
echo "Packages in $out:"
(cd "$out" && stat --printf='  %n  %s bytes\n' causeway*.deb)
