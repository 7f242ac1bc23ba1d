#!/bin/sh
# shellcheck shell=dash # every sh that may run this has `ulimit -n` and `[ -O`, which POSIX lacks
# launch COMMAND [ARGUMENT ...]: runs the command as the account of an instance of alcless, on a copy of the project.
#
# The copy is made before the run and lacks what the policy denies. After the run, changes are copied back, except those of
# read-only paths. Exits with the command's status; with 124 if its time was up, and with 125 if nothing was run or the
# changes could not be copied back.
set -fu
unset IFS

# Prints why nothing was run, and exits. A stranger may have chosen names in it: only printable ASCII is shown, the rest as ?.
refuse() {
    LC_ALL=C sw_text=$1 sw_said=
    case $sw_text in
    *[![:print:]]*)
        while [ -n "$sw_text" ]; do
            sw_tail=${sw_text#?}
            case ${sw_text%"$sw_tail"} in
            [[:print:]]) sw_said=$sw_said${sw_text%"$sw_tail"} ;;
            *) sw_said="$sw_said?" ;;
            esac
            sw_text=$sw_tail
        done
        ;;
    esac
    printf 'sandbox: %s\n' "${sw_said:-$1}" >&2
    exit 125
}

[ "$#" -gt 0 ] || refuse 'give a command to run'
case $0 in
/*) sw_here=${0%/*} ;;
*/*) sw_here=./${0%/*} ;;
*) sw_here=. ;;
esac
# Checks that what was rendered with this file is unchanged. PATH is not known to be safe yet.
verify() { # NAME DIGEST
    sw_sum=$(/usr/bin/shasum -a 256 <"$sw_here/$1") || refuse "cannot read $sw_here/$1"
    [ "${sw_sum%% *}" = "$2" ] || refuse "$sw_here/$1 was changed after it was rendered: render it again"
}
verify variables.sh 0000000000000000000000000000000000000000000000000000000000000000
# shellcheck source-path=SCRIPTDIR source=variables.sh
. "$sw_here/variables.sh"

# This script only runs programs from directories that no sandbox can write. The command gets the original PATH.
below() { # PATH DIRECTORY ...: whether the path is in one of them
    sw_sought=$1
    shift
    for sw_directory do
        case $sw_sought/ in
        "$sw_directory"/*) return 0 ;;
        esac
    done
    return 1
}
below_project() { # PATH: whether it, or a directory above it, has a sandbox.yaml, whose sandbox may have written there
    sw_above=$1
    while [ -n "${sw_above%/}" ]; do
        if [ -e "$sw_above/sandbox.yaml" ] || [ -L "$sw_above/sandbox.yaml" ]; then return 0; fi
        sw_above=${sw_above%/*}
    done
    return 1
}
sw_given=${PATH-}
sw_programs=$(
    IFS=:
    for sw_path in ${PATH:-/usr/local/bin:/usr/bin:/bin}; do
        case $sw_path in
        (/*) CDPATH='' cd -P -- "$sw_path" 2>/dev/null || continue ;;
        (*) continue ;;
        esac
        case $PWD in
        (*:*) ;;
        (*) inside below "$PWD" || below_project "$PWD" || below_project "$sw_path" || printf '%s:' "$PWD" ;;
        esac
    done
)
[ -n "$sw_programs" ] || refuse 'every directory of PATH can be written by the sandbox, or is below a sandbox.yaml'
PATH=${sw_programs%:}
for sw_program in alclessctl rsync; do
    command -v "$sw_program" >/dev/null || refuse "$sw_program is not installed"
done
account() { # WORKDIR COMMAND [ARGUMENT ...]
    sw_directory=$1
    shift
    alclessctl --tty=false --plain shell --workdir "$sw_directory" "$sw_instance" "$@"
}
account / true </dev/null >/dev/null 2>&1 ||
    refuse "alcless has no instance $sw_instance: \"set-up\" in the same directory creates one"
sw_home=$(account / sh -c 'cd && pwd -P' </dev/null) || refuse 'the instance has no home'
case $sw_home in
/*[!A-Za-z0-9_./-]* | [!/]* | '') refuse "the instance's home is no plain path: $sw_home" ;;
esac
sw_back=$(mktemp -d "${TMPDIR:-/tmp}/sandwright-XXXXXXXXXX") || refuse 'no directory can be made for the changes that are copied back'

# However the run ends: no process of the account continues, and the next run finds none of its files.
ended() {
    trap '' HUP INT TERM
    rm -rf -- "$sw_back"
    account / sh -c 'rm -rf "$HOME/.sandwright"; kill -s KILL -- -1' </dev/null >/dev/null 2>&1
}
account / mkdir "$sw_home/.sandwright" </dev/null 2>/dev/null || {
    rmdir -- "$sw_back"
    refuse "a run of this project is active, or was killed: \"alclessctl --plain shell --workdir / $sw_instance rm -r $sw_home/.sandwright\" ends that"
}
trap ended EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

copied() { # FROM TO [OPTION ...]
    sw_from=$1 sw_to=$2
    shift 2
    rsync -rlpt --delete -e 'alclessctl --tty=false --plain shell --workdir=/' "$@" -- "$sw_from" "$sw_to" </dev/null
}
copied_there() { # PATTERN ...: except these
    for sw_pattern do
        shift
        set -- "$@" "--exclude=$sw_pattern"
    done
    copied "$sw_source" "$sw_instance:$sw_home/workspace/" "$@"
}
hidden copied_there || refuse 'the project cannot be copied'

matches() { # NAME PATTERN ...: a pattern is a name, or a prefix and *
    sw_sought=$1
    shift
    for sw_pattern do
        case $sw_pattern in
        *\*) case $sw_sought in "${sw_pattern%\*}"*) return 0 ;; esac ;;
        "$sw_sought") return 0 ;;
        esac
    done
    return 1
}
# Calls a function with the name of each variable that is passed on. In the output of `export -p`, a line of a value can look
# like a variable; it is then looked up as one.
names() {
    IFS='
'
    for sw_name in $(export -p); do
        case $sw_name in
        'export '* | 'declare -x '* | 'typeset -x '*) ;;
        *) continue ;;
        esac
        sw_name=${sw_name#* } && sw_name=${sw_name#-x } && sw_name=${sw_name%%=*}
        case $sw_name in
        '' | [0-9]* | *[!A-Za-z0-9_]* | sw_*) continue ;;
        esac
        never matches "$sw_name" && continue
        passed matches "$sw_name" && eval "[ -n \"\${$sw_name+set}\" ]" && "$1" "$sw_name"
    done
    unset IFS
}
# Prints the environment as shell commands: no value is an argument, which other users could read.
assign() { # NAME VALUE: the dot keeps line breaks at the end
    printf '%s=' "$1"
    printf '%s.\n' "$2" | sed "s/'/'\\\\''/g; 1s/^/'/; \$s/\$/'/"
    printf '%s=$%s%s%%.}\nexport %s\n' "$1" '{' "$1" "$1"
}
assign_given() { # NAME
    eval "sw_value=\${$1}"
    [ "$1" != PATH ] || sw_value=$sw_given
    assign "$1" "$sw_value"
}
{
    names assign_given
    settings assign
} | account / sh -c 'umask 077 && cat >"$HOME/.sandwright/environment"' || refuse 'the environment cannot be passed on'

sw_timer=
if [ -n "$sw_time" ]; then
    (
        trap 'kill "$sw_sleep"; exit' TERM
        sleep "$sw_time" &
        sw_sleep=$!
        wait "$sw_sleep"
        account / sh -c ': >"$HOME/.sandwright/late"; kill -s KILL -- -1'
    ) </dev/null >/dev/null 2>&1 &
    sw_timer=$!
fi
account "$sw_home/workspace$sw_start" sh -c '
    [ "$1" = none ] || ulimit -n "$1" || exit 125
    [ "$2" = none ] || ulimit -u "$2" || exit 125
    shift 2
    ulimit -c 0
    . "$HOME/.sandwright/environment"
    "$@"
    echo "$?" >"$HOME/.sandwright/status"
' sh "${sw_files:-none}" "${sw_pids:-none}" "$@"
sw_said=$?
[ -z "$sw_timer" ] || kill "$sw_timer" 2>/dev/null
sw_status=$(account / sh -c '[ ! -e "$HOME/.sandwright/late" ] && cat "$HOME/.sandwright/status" || echo 124' </dev/null 2>/dev/null)
[ "$sw_status" != 124 ] || printf 'sandbox: the time limit (resources.time) was reached, or the command was killed\n' >&2
case $sw_status in
'' | *[!0-9]*) refuse "the command was not run, or its exit status is unknown: alclessctl exited with $sw_said" ;;
esac

# The account sends, and can send anything. So what is left out is decided here, between directories that it cannot write.
copied_back() { # PATTERN ...: except these
    for sw_pattern do
        shift
        set -- "$@" "--exclude=$sw_pattern"
    done
    rsync -rlpt --delete "$@" -- "$sw_back/" "$sw_source" </dev/null
}
# A set-id file of the account would become a set-id file of ours.
without_set_id() {
    find "$sw_back" -type f '(' -perm -4000 -o -perm -2000 ')' -exec chmod u-s,g-s '{}' +
}
copied "$sw_instance:$sw_home/workspace/" "$sw_back/" && without_set_id && kept copied_back ||
    refuse 'the changes cannot be copied back: they stay in the workspace of the instance'
exit "$sw_status"
