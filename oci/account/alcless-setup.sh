#!/bin/sh
# set-up [--remove] [--yes]: creates the instance of alcless that `launch` in this directory uses, or removes it with all
# its files. Without --yes it only prints what it would do, and exits with 3.
set -fu
case $0 in
/*) sw_here=${0%/*} ;;
*/*) sw_here=./${0%/*} ;;
*) sw_here=. ;;
esac
sw_sum=$(/usr/bin/shasum -a 256 <"$sw_here/variables.sh") &&
    [ "${sw_sum%% *}" = 0000000000000000000000000000000000000000000000000000000000000000 ] || {
    printf 'sandbox: variables.sh beside this file was changed after it was rendered: render it again\n' >&2
    exit 1
}
# shellcheck source-path=SCRIPTDIR source=variables.sh
. "$sw_here/variables.sh"
sw_yes='' sw_does=create
for sw_word do
    case $sw_word in
    --yes) sw_yes=yes ;;
    --remove) sw_does=delete ;;
    *)
        printf 'sandbox: there is no option %s; there are --remove and --yes\n' "$sw_word" >&2
        exit 2
        ;;
    esac
done
printf 'alclessctl --tty=false --plain %s %s\n' "$sw_does" "$sw_instance"
[ -n "$sw_yes" ] || {
    printf 'sandbox: nothing was done; add --yes to do it\n' >&2
    exit 3
}
exec alclessctl --tty=false --plain "$sw_does" "$sw_instance"
