#!/bin/sh
# launch COMMAND [ARGUMENT ...]: runs the command as it is. Nothing is enforced.
refuse() {
    printf 'sandbox: %s\n' "$1" >&2
    exit 125
}
[ "$#" -gt 0 ] || refuse 'give a command to run'
case $0 in
/*) sw_here=${0%/*} ;;
*/*) sw_here=./${0%/*} ;;
*) sw_here=. ;;
esac
sw_sum=$(sha256sum <"$sw_here/variables.sh" 2>/dev/null || shasum -a 256 <"$sw_here/variables.sh") ||
    refuse "cannot read variables.sh beside this file"
[ "${sw_sum%% *}" = 0000000000000000000000000000000000000000000000000000000000000000 ] ||
    refuse 'variables.sh beside this file was changed after it was rendered: render it again'
# shellcheck source-path=SCRIPTDIR source=variables.sh
. "$sw_here/variables.sh"
printf 'sandbox: enforcement=none: %s\n' "$sw_reason" >&2
run() { # COUNT WORD ... NAME=VALUE ...: the command has so many words
    sw_count=$1
    shift
    while [ "$sw_count" -gt 0 ]; do
        sw_word=$1
        shift
        set -- "$@" "$sw_word"
        sw_count=$((sw_count - 1))
    done
    exec env "$@"
}
settings run "$#" "$@"
