#!/bin/sh
# install-profile [DIRECTORY]: copies `seccomp.json` from this directory to where a node's kubelet looks for profiles, below
# DIRECTORY (default: /var/lib/kubelet/seccomp). Run it as root on each node: on a node without the profile the Pod does
# not start.
set -eu
sw_here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
verify() { # NAME DIGEST
    [ "$(sha256sum <"$sw_here/$1" | cut -d ' ' -f 1)" = "$2" ] || {
        printf 'install-profile: %s was changed after it was rendered\n' "$sw_here/$1" >&2
        exit 1
    }
}
verify variables.sh 0000000000000000000000000000000000000000000000000000000000000000
# shellcheck source-path=SCRIPTDIR source=variables.sh
. "$sw_here/variables.sh"
verify seccomp.json "$sw_seccomp"
sw_to=${1:-/var/lib/kubelet/seccomp}/$sw_profile
umask 022
mkdir -p -- "${sw_to%/*}"
sw_new=$(mktemp "${sw_to%/*}/.new-XXXXXXXXXX")
trap 'rm -f -- "$sw_new"' EXIT
cat -- "$sw_here/seccomp.json" >"$sw_new"
chmod 644 "$sw_new"
mv -f -- "$sw_new" "$sw_to"
printf '%s\n' "$sw_to"
