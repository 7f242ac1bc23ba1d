#!/bin/sh
# shellcheck shell=dash # every sh that may run this has `ulimit -n` and `[ -O`, which POSIX lacks
# launch COMMAND [ARGUMENT ...]: runs the command in the sandbox that `profile.sb` beside this file describes.
#
# With network.mode: proxy, $SANDWRIGHT_PROXY_PORT is the proxy's port on localhost. Nothing else can be reached.
# Exits with the command's status; with 124 if its time was up; with 125, and without running anything, if the
# sandbox could not be started as it was rendered.
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
[ -x /usr/bin/sandbox-exec ] || refuse '/usr/bin/sandbox-exec is missing: this is not macOS, or a version without Seatbelt'
[ -z "$sw_uid" ] || [ "$(id -u)" = "$sw_uid" ] ||
    refuse "user.mapping is required, and this was rendered for user $sw_uid: render it again"
verify profile.sb "$sw_profile"

# The rules are for the targets that these links had when this was rendered.
link() { # PATH TARGET
    [ "$(readlink "$1" && printf x)" = "$2
x" ] || refuse "$1 leads elsewhere than when this was rendered: render it again"
}
links link

sw_port=
if [ -n "$sw_proxy" ]; then
    case ${SANDWRIGHT_PROXY_PORT-} in
    '' | 0* | *[!0-9]* | ??????*) refuse 'SANDWRIGHT_PROXY_PORT must be the port of the proxy, which is all that the policy lets the command reach' ;;
    esac
    [ "$SANDWRIGHT_PROXY_PORT" -le 65535 ] || refuse 'SANDWRIGHT_PROXY_PORT is not a port number'
    sw_port=$SANDWRIGHT_PROXY_PORT
fi

# The programs of credentials.shims run on the host, through the session's bridge. Without a bridge nothing is
# started, because a program with the same name on PATH would run in place of a shim.
sw_shims=
if [ -n "$sw_bridge" ]; then
    { [ -n "${SANDWRIGHT_SHIMS-}" ] && [ -S "$SANDWRIGHT_SHIMS/socket" ] && [ -O "$SANDWRIGHT_SHIMS/socket" ]; } ||
        refuse 'the policy has shims, and SANDWRIGHT_SHIMS names no running bridge: start this with "sandwright run"'
    sw_shims=$(CDPATH='' cd -P -- "$SANDWRIGHT_SHIMS" && pwd -P) || refuse "$SANDWRIGHT_SHIMS can not be entered"
    [ -n "$sw_searches" ] || sw_search=${sw_given:-/usr/local/bin:/usr/bin:/bin}
fi

# The private temporary directory of this sandbox.
[ -d "$sw_tmp" ] || (umask 077 && mkdir -p -- "$sw_tmp") || refuse "cannot create $sw_tmp"
{ [ ! -L "$sw_tmp" ] && [ -O "$sw_tmp" ] && [ "$(cd -- "$sw_tmp" && pwd -P)" = "$sw_tmp" ]; } ||
    refuse "$sw_tmp is a link, or somebody else's"

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
# Prints the names of the variables that are passed on.
names() {
    for sw_name in $(awk 'BEGIN { for (name in ENVIRON) print name }'); do
        case $sw_name in
        '' | [0-9]* | *[!A-Za-z0-9_]* | sw_*) continue ;;
        esac
        never matches "$sw_name" && continue
        passed matches "$sw_name" && eval "[ -n \"\${$sw_name+set}\" ]" && printf '%s\n' "$sw_name"
    done
}
# Prints the environment as shell commands: no value is an argument, which other users could read.
say() { # NAME VALUE
    sw_text=$(printf '%sx' "$2" | sed "s/'/'\\\\''/g") # the x keeps line breaks at the end
    printf "export %s='%s'\n" "$1" "${sw_text%x}"
}
say_proxied() { # NAME PART ...: the proxy's port is between parts
    sw_name=$1 sw_value=$2
    shift 2
    for sw_part do
        sw_value=$sw_value$sw_port$sw_part
    done
    say "$sw_name" "$sw_value"
}
environment() {
    for sw_name in $(names); do
        if [ "$sw_name" = PATH ]; then
            say PATH "$sw_given"
        else
            eval "say \"\$sw_name\" \"\${$sw_name}\""
        fi
    done
    [ -z "$sw_tells_tmp" ] || say TMPDIR "$sw_tmp"
    proxied say_proxied
    settings say
    [ -z "$sw_shims" ] || say PATH "$sw_shims/bin:$sw_search"
}
ulimit -c 0
if [ -n "$sw_files" ]; then
    sw_limit=$(ulimit -H -n)
    { [ "$sw_limit" != unlimited ] && [ "$sw_limit" -le "$sw_files" ]; } || ulimit -n "$sw_files" ||
        refuse 'resources.files cannot be set'
fi

set -- -- "$@"
[ -z "$sw_shims" ] || set -- -D "SHIMS=$sw_shims" "$@"
[ -z "$sw_port" ] || set -- -D "PROXY_PORT=$sw_port" "$@"
set -- env -i /bin/sh -c 'eval "$(cat <&4)" && exec 4<&- && unset PWD OLDPWD SHLVL && exec "$@"' sh \
    /usr/bin/sandbox-exec -f "$sw_here/profile.sb" "$@"
if [ -n "$sw_time" ]; then
    # Kills the command and those of its processes that are still its descendants.
    sw_mark=$(mktemp -d) || refuse 'cannot create a directory for the run'
    set -- sh -c 'echo "$$" >"$1/pid"; shift; exec "$@"' sh "$sw_mark" "$@"
    stop_tree() {
        for sw_child in $(ps -A -o pid= -o ppid= | awk -v parent="$1" '$2 == parent { print $1 }'); do
            stop_tree "$sw_child"
        done
        kill -s KILL "$1" 2>/dev/null
    }
    (
        trap 'kill "$sw_sleep" 2>/dev/null; exit' TERM
        sleep "$sw_time" &
        sw_sleep=$!
        wait "$sw_sleep"
        : >"$sw_mark/late"
        [ ! -s "$sw_mark/pid" ] || stop_tree "$(cat "$sw_mark/pid")"
    ) </dev/null >/dev/null 2>&1 &
    sw_watch=$!
    trap : INT QUIT
fi

# What is typed on a terminal that is not standard output, too, is meant for another program.
[ ! -t 0 ] || [ -t 1 ] || {
    [ ! -t 2 ] || printf 'sandbox: the command cannot read the terminal, because its standard output is not a terminal\n' >&2
    exec </dev/null
}
exec 6<&0
environment | {
    exec 4<&0 0<&6 6<&-
    exec "$@"
}
sw_status=$?
if [ -n "$sw_time" ]; then
    kill "$sw_watch" 2>/dev/null
    [ ! -e "$sw_mark/late" ] || {
        printf 'sandbox: the time limit (resources.time) was reached\n' >&2
        sw_status=124
    }
    rm -rf -- "$sw_mark"
fi
exit "$sw_status"
