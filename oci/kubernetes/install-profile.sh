#!/bin/sh
# install-profile [DIRECTORY]: puts `seccomp.json` beside this file where a node's kubelet looks for profiles, below
# /var/lib/kubelet/seccomp if no other directory is given. To be run on each node, by root. Where it is not there,
# the Pod does not start.
set -eu
sw_here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
verify() { # NAME DIGEST
    [ "$(sha256sum <"$sw_here/$1" | cut -d ' ' -f 1)" = "$2" ] || {
        printf 'install-profile: %s is not what was rendered\n' "$sw_here/$1" >&2
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
