#!/bin/sh
# shellcheck shell=dash # every sh that may run this has `[ -O`, which POSIX lacks, and `[ -k`
# launch COMMAND [ARGUMENT ...]: runs the command in a container of Docker or Podman, whose engine runs in a virtual machine, as
# on macOS. Exits with the command's status; with 124 if its time was up; with 125, and without running anything, if the
# container could not be started as it was rendered.
#
# The container has a name, by which this script removes it, and a label `sandwright.session` with $SANDWRIGHT_SESSION, else
# with a part of that name. The engine's client gets only the names of variables, and takes the values from its environment.
set -fu
unset IFS

# Prints why nothing was run, and exits. A stranger may have chosen names in it: only printable ASCII is shown, the rest as ?.
refuse() {
    printf 'sandbox: %s\n' "$(printf %s "$1" | LC_ALL=C tr -c '[:print:]' '?')" >&2
    exit 125
}

[ "$#" -gt 0 ] || refuse 'give a command to run'
case $0 in
/*) sw_here=${0%/*} ;;
*/*) sw_here=./${0%/*} ;;
*) sw_here=. ;;
esac
sw_here=$(CDPATH='' cd -P -- "$sw_here/" 2>/dev/null && pwd -P) || refuse "cannot enter $sw_here"
# PATH is not known to be safe yet.
sw_sum=$(/usr/bin/shasum -a 256 <"$sw_here/variables.sh") || refuse "cannot read $sw_here/variables.sh"
[ "${sw_sum%% *}" = 0000000000000000000000000000000000000000000000000000000000000000 ] ||
    refuse "$sw_here/variables.sh was changed after it was rendered: render it again"
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

# Checks that what was rendered with this file, and the paths that it was rendered for, are unchanged.
(cd -- "$sw_here" && sums printf '%s  %s\n' | /usr/bin/shasum -a 256 --check --status -) 2>/dev/null ||
    refuse "an artifact in $sw_here was changed or cannot be read: render it again"
missing() {
    for sw_path do
        { [ ! -e "$sw_path" ] && [ ! -L "$sw_path" ]; } || refuse "$sw_path appeared after this was rendered: render it again"
    done
}
absent missing
there() { # -d PATH ...: these are still directories; ! PATH ...: these exist, and are not directories
    sw_kind=$1
    shift
    for sw_path do
        [ ! -L "$sw_path" ] || refuse "$sw_path became a symbolic link after this was rendered"
        [ -e "$sw_path" ] || refuse "$sw_path was removed after this was rendered: render it again"
        if [ -d "$sw_path" ]; then sw_is=-d; else sw_is=!; fi
        [ "$sw_is" = "$sw_kind" ] || refuse "$sw_path changed its type after this was rendered: render it again"
    done
}
there_directories there -d
there_files there !
[ -z "$sw_owner" ] || [ "$(id -u)" = "$sw_owner" ] ||
    refuse "this was rendered for user $sw_owner, who would own new files: render it again"
[ -z "$sw_required" ] || [ "$sw_engine" = docker ] || [ -z "${CONTAINER_HOST-}${CONTAINER_CONNECTION-}" ] ||
    refuse 'user.mapping is required, and new files would belong to the user of the other machine'\''s Podman'
command -v "$sw_engine" >/dev/null || refuse "$sw_engine is not installed"
engine() {
    "$sw_engine" "$@"
}
sw_facts=$(engine info --format "$sw_facts_format" 2>/dev/null)
limited() { # an engine ignores a limit that its machine cannot enforce, with a mere warning
    for sw_name do
        case $sw_facts in
        *" $sw_name=true "*) ;;
        *) refuse "$sw_title has no cgroup for $sw_name there: resources.memory, cpus and pids need one" ;;
        esac
    done
}
controllers limited
case $sw_engine$sw_facts in
docker*name=rootless*) sw_as_root=yes ;; # its root is the caller; other user IDs belong to nobody
docker*name=userns*)
    [ -z "$sw_required" ] || refuse 'user.mapping is required, and this Docker maps users to other IDs (userns-remap)'
    ;;
esac
# Podman hands an image's annotations on to the runtime, which they steer (crun(1), run.oci.*). No name makes an image ours.
documented() {
    sw_keys=$(engine image inspect --format '{{range $key, $value := .Annotations}}{{println $key}}{{end}}' "$1" 2>/dev/null) ||
        { engine ps --quiet >/dev/null && refuse "$2"; } || refuse 'Podman does not answer'
    sw_key=$(printf '%s\n' "$sw_keys" |
        LC_ALL=C grep -Ev '^$|^(org\.opencontainers\.image|org\.label-schema|com\.docker|io\.buildah|dev\.sandwright)\.' | head -n 1)
    [ -z "$sw_key" ] || refuse "the image $1 has the annotation $sw_key, which Podman passes on to its runtime; without annotations it is: podman save $1 | podman load"
}
[ "$sw_engine" = docker ] || documented "$sw_image" "$sw_image_missing"
sw_root=
if [ -n "$sw_image_root" ]; then # the root of gVisor's sandbox: mounted into the container read-only, and shared with other runs
    sw_root=$(cd -- "${SANDWRIGHT_ROOTFS:-$sw_here/rootfs}" 2>/dev/null && pwd -P) ||
        refuse "${SANDWRIGHT_ROOTFS:-$sw_here/rootfs} does not exist: set SANDWRIGHT_ROOTFS to the directory of the unpacked image $sw_image_root"
    in_image() {
        for sw_path do
            { [ -e "$sw_root$sw_path" ] && [ ! -L "$sw_root$sw_path" ]; } ||
                refuse "the image has no $sw_path to mount on, or a symbolic link there"
        done
    }
    image_points in_image
fi
if [ -n "$sw_shims" ]; then
    { [ -n "${SANDWRIGHT_SHIMS-}" ] && [ -S "$SANDWRIGHT_SHIMS/socket" ] && [ -O "$SANDWRIGHT_SHIMS/socket" ]; } ||
        refuse 'the policy has shims, and SANDWRIGHT_SHIMS names no running bridge: start this with "sandwright run"'
    set -- "$sw_shims/sandwright-enter" - "$@"
fi

# The arguments and variables that are passed on. Engines exchange JSON, which would change anything that is not UTF-8.
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
utf8() { # TEXT ...
    printf %s "$*" | iconv -f UTF-8 -t UTF-8 >/dev/null 2>&1
}
utf8 "$@" || refuse "an argument of the command is not valid UTF-8, which $sw_title requires"
sw_names=
for sw_name in $(LC_ALL=C awk 'BEGIN { for (name in ENVIRON) print name }'); do
    case $sw_name in
    '' | [0-9]* | *[!A-Za-z0-9_]* | sw_*) continue ;;
    esac
    never matches "$sw_name" && continue
    passed matches "$sw_name" && eval "[ -n \"\${$sw_name+set}\" ]" || continue
    eval "utf8 \"\${$sw_name}\"" || refuse "the variable $sw_name is not valid UTF-8, which $sw_title requires"
    sw_names="$sw_names $sw_name"
done

# The run: its ID, its directory, and a process that outlives this script and cleans up, however the script ends.
case ${SANDWRIGHT_SESSION-} in
*[!abcdefghijklmnopqrstuvwxyz0123456789-]*) refuse 'SANDWRIGHT_SESSION may contain only lower-case letters, digits and hyphens' ;;
esac
sw_state=
case ${XDG_RUNTIME_DIR-} in
/*) [ ! -O "$XDG_RUNTIME_DIR" ] || sw_state=$XDG_RUNTIME_DIR/sandwright ;;
esac
[ -n "$sw_state" ] || sw_state=${HOME-}/.cache/sandwright/run
(umask 077 && mkdir -p -- "$sw_state/runs") 2>/dev/null
for sw_path in "$sw_state" "$sw_state/runs"; do
    { [ -d "$sw_path" ] && [ ! -L "$sw_path" ] && [ -O "$sw_path" ] && chmod 700 -- "$sw_path"; } ||
        refuse "$sw_path is not a directory of this user, so the run cannot have its files there: set XDG_RUNTIME_DIR to one"
done
sw_session=$(mktemp -d "$sw_state/runs/sandwright-XXXXXXXXXX") || refuse 'cannot create a directory for the run'
sw_run=${sw_session##*/}
sw_label=sandwright.session=${SANDWRIGHT_SESSION:-${sw_run#*-}}
sw_cid=${SANDWRIGHT_CIDFILE:-$sw_session/cid}
case $sw_cid in
/*) ;;
*) sw_cid=$PWD/$sw_cid ;;
esac

# Mount points that must exist while anything runs in this project: otherwise the engine would create them, and leave them there. Ours
# have a mode that nothing else has: not writable, and for directories also sticky.
cover_directories() {
    for sw_path do
        [ -k "$sw_path" ] || { missing "$sw_path" && mkdir -m 1555 -- "$sw_path" 2>/dev/null; }
        { [ -d "$sw_path" ] && [ ! -L "$sw_path" ]; } || refuse "cannot create $sw_path, so programs inside could"
    done
}
ours() { # PATH LINE
    [ -f "$1" ] && [ ! -L "$1" ] && { [ ! -w "$1" ] || [ -w / ]; } && [ "$(cat -- "$1")" = "$2" ]
}
cover_file() { # PATH LINE
    ours "$@" || { missing "$1" && (umask 333 && set -C && printf "${2:+%s\\n}" "$2" >"$1") 2>/dev/null; }
    ours "$@" || refuse "cannot create $1, so programs inside could"
}
uncover_directories() { # the last one first: to Git, `refs` without `commondir` would be a repository
    [ "$#" -gt 0 ] || return 0
    (shift && uncover_directories "$@")
    [ ! -k "$1" ] || rmdir -- "$1" 2>/dev/null
}
uncover_file() {
    ! ours "$@" || rm -f -- "$1"
}
uncover() { # the last run in the project does this
    [ -z "$(engine ps --all --quiet --filter "label=$sw_project")" ] || return 0
    covered_files uncover_file
    covered_directories uncover_directories
}

# Removes the container. The engine creates it even if the client that asked for it was killed, so it may appear later; or the
# engine may be removing it already.
remove() {
    sw_tries=0
    while [ "$sw_tries" -lt 200 ]; do
        engine rm --force --volumes "$sw_run" >/dev/null 2>&1
        if sw_there=$(engine ps --all --quiet --filter "name=^$sw_run\$" 2>/dev/null) && [ -z "$sw_there" ] &&
            ! { [ -n "$sw_client" ] && kill -0 "$sw_client" 2>/dev/null; }; then
            { [ ! -s "$sw_cid" ] && [ "$sw_tries" -lt 20 ]; } || break
        fi
        sleep 0.1
        sw_tries=$((sw_tries + 1))
    done
}
remove_proxy() { # and its network, which no sandbox uses any more
    engine rm --force --volumes "$sw_run-proxy"
    sw_tries=0
    while engine network inspect "$sw_run-inside" && [ "$sw_tries" -lt 50 ]; do
        # Docker can forget a container but keep its endpoint in the network, which then is never removed by itself.
        engine network rm "$sw_run-inside" || {
            engine rm --force --volumes "$sw_run-proxy"
            engine network disconnect --force "$sw_run-inside" "$sw_run-proxy"
            sleep 0.1
        }
        sw_tries=$((sw_tries + 1))
    done
} >/dev/null 2>&1
leave() { # removes everything that a run made, except its container
    [ -z "$sw_proxied" ] || remove_proxy
    uncover
    rm -rf -- "$sw_session"
}
limit_time() {
    trap 'kill -s KILL "$sw_sleep"; exit' USR1
    sleep "$sw_time" &
    sw_sleep=$!
    wait "$sw_sleep"
    : >"$sw_session/late"
    remove
}
outlive() {
    trap '' HUP INT QUIT TERM
    cd / && exec <"$sw_session/alive" >/dev/null 2>&1
    sw_timer=
    if read -r sw_said && [ -n "$sw_time" ]; then
        limit_time &
        sw_timer=$!
    fi
    read -r sw_said
    [ -z "$sw_timer" ] || kill -s USR1 "$sw_timer"
    [ "$sw_said" = 'done' ] || {
        remove
        leave
    }
}
sw_client='' sw_said=''
mkfifo -m 600 "$sw_session/alive" || refuse 'cannot start the process that cleans up'
outlive &
printf '%s\n' "$sw_engine" "$$ -" "$! -" >"$sw_session/owner"
exec 8<>"$sw_session/alive"
covered_directories cover_directories
covered_files cover_file

# The words of `run`, quoted.
replace() { # TEXT PART OTHER: sets sw_text to the text with each PART replaced by OTHER
    sw_text='' sw_rest=$1
    while :; do
        case $sw_rest in
        *"$2"*) sw_text=$sw_text${sw_rest%%"$2"*}$3 sw_rest=${sw_rest#*"$2"} ;;
        *) break ;;
        esac
    done
    sw_text=$sw_text$sw_rest
}
sw_words=
add() { # WORD ...
    for sw_word do
        replace "$sw_word" "'" "'\\''"
        sw_words="$sw_words '$sw_text'"
    done
}
bind() { # PATH FIELDS: the fields of `--mount` are CSV
    replace "$1" '"' '""'
    add "--mount=type=bind,readonly,\"src=$sw_text\",$2"
}
place() { # NAME FIELDS
    bind "$sw_here/$1" "$2"
}
hide() { # FIELDS ...: mounts a file without permissions over each
    for sw_fields do
        bind "$sw_session/nothing" "$sw_fields"
    done
}
options add
(umask "$sw_nothing_mask" && : >"$sw_session/nothing")
hidden_files hide
if [ -n "$sw_proxied" ]; then
    # The proxy is on two networks: the sandbox's, which leads nowhere, and one that leads out: $SANDWRIGHT_NETWORK, else the
    # engine's default. The first has no address of the host either.
    sw_options=$sw_words sw_words=
    engine image inspect --format . "$sw_proxy_image" >/dev/null 2>&1 || refuse "$sw_proxy_missing"
    [ "$sw_engine" = docker ] || documented "$sw_proxy_image" "$sw_proxy_missing"
    add network create --internal "--label=$sw_label"
    [ "$sw_engine" != docker ] || add --opt=com.docker.network.bridge.inhibit_ipv4=true
    eval "engine $sw_words $sw_run-inside" >/dev/null || refuse 'cannot create a network for the sandbox and its proxy'
    # squid serves only addresses of that network, except the host's: otherwise everybody who reaches its other address.
    engine network inspect "$sw_run-inside" | sed -n \
        -e 's/.*"[Ss]ubnet": *"\([0-9A-Fa-f.:/]*\)".*/acl sw_clients src \1/p' \
        -e 's/.*"[Gg]ateway": *"\([0-9A-Fa-f.:]*\).*/acl sw_gateway src \1/p' >"$sw_session/clients"
    echo 'acl sw_gateway src 255.255.255.255' >>"$sw_session/clients"
    { grep -q sw_clients "$sw_session/clients" && chmod 644 "$sw_session/clients"; } ||
        refuse 'the network of the sandbox and its proxy has no addresses'
    sw_words=
    add run --detach --rm --pull=never --read-only --cap-drop=ALL --security-opt=no-new-privileges --pids-limit=64 \
        --ulimit=nofile=4096:4096 "--name=$sw_run-proxy" "--label=$sw_label" "--network=${SANDWRIGHT_NETWORK:-$sw_proxy_network}"
    place proxy dst=/etc/squid
    bind "$sw_session/clients" "dst=$sw_proxy_clients"
    add "$sw_proxy_image"
    { eval "engine $sw_words" </dev/null >/dev/null 8>&- && engine network connect "$sw_run-inside" "$sw_run-proxy"; } ||
        refuse 'cannot start the proxy'
    sw_tries=0
    until engine logs "$sw_run-proxy" 2>&1 | grep -q 'Accepting HTTP'; do
        [ "$sw_tries" -lt 100 ] || refuse "the proxy does not answer: $(engine logs "$sw_run-proxy" 2>&1)"
        sleep 0.1
        sw_tries=$((sw_tries + 1))
    done
    sw_address=$(engine inspect --format "{{(index .NetworkSettings.Networks \"$sw_run-inside\").IPAddress}}" "$sw_run-proxy")
    [ -n "$sw_address" ] || refuse 'the proxy has no address'
    { cat "$sw_here/hosts" && printf '%s\tproxy\n' "$sw_address"; } >"$sw_session/hosts" && chmod 644 "$sw_session/hosts"
    sw_words=$sw_options
    bind "$sw_session/hosts" dst=/etc/hosts
    # Without IPv6, because the host may have a link-local address on that network.
    add "--network=$sw_run-inside" --sysctl=net.ipv6.conf.all.disable_ipv6=1 --sysctl=net.ipv6.conf.default.disable_ipv6=1
fi
add "--name=$sw_run" "--cidfile=$sw_cid" "--label=$sw_label" "--label=$sw_project" "--security-opt=seccomp=$sw_here/seccomp.json"
{ [ -t 0 ] && [ -t 1 ]; } && add --tty
if [ -n "$sw_home" ] && [ -n "$sw_as_root" ]; then
    # Root inside is the caller outside, and has the caller's home, not the one in the image.
    [ "$sw_engine" = docker ] || add --userns=host
    add --user=0:0
    printf 'root:x:0:0::%s:/bin/sh\nnobody:x:65534:65534::/nonexistent:/sbin/nologin\n' "$sw_home" >"$sw_session/passwd"
    bind "$sw_session/passwd" dst=/etc/passwd
elif [ -n "$sw_home" ]; then
    place passwd dst=/etc/passwd
    place group dst=/etc/group
fi
files_inside place
[ -z "$sw_shims" ] || bind "$SANDWRIGHT_SHIMS" "bind-propagation=rprivate,dst=$sw_shims"
for sw_name in $sw_names; do
    # The client has another PATH than the command, so this value alone is an argument.
    [ "$sw_name" != PATH ] || [ "$PATH" = "$sw_given" ] || sw_name="PATH=$sw_given"
    add "--env=$sw_name"
done
if [ -n "$sw_root" ]; then
    bind "$sw_root" dst=/sandwright/rootfs
    add "--env=SANDWRIGHT_PASSED=$sw_names"
fi
started add
eval "set -- run $sw_words \"\$@\""
unset_names unset

# What is typed on a terminal that is not standard output, too, is meant for another program.
[ ! -t 0 ] || [ -t 1 ] || {
    [ ! -t 2 ] || printf 'sandbox: the command cannot read the terminal, because its standard output is not a terminal\n' >&2
    exec </dev/null
}
# Podman's client before 4.5 dies of signals that come early (containers/podman#17489), so they go to the container, and to
# the client only while there is none. Signals from keys of the terminal reach the client anyway.
sw_told='' sw_signalled='' sw_ending=''
pass() {
    sw_told=yes sw_signalled=yes
    [ -z "$sw_client" ] || { [ "$sw_engine" = podman ] && engine kill "--signal=$1" "$sw_run" >/dev/null 2>&1; } ||
        kill -s "$1" "$sw_client" 2>/dev/null
}
press() {
    sw_told=yes sw_signalled=yes
    (: </dev/tty) 2>/dev/null || pass "$1"
}
trap 'sw_ending=yes; pass TERM' TERM
trap 'sw_ending=yes; pass HUP' HUP
trap 'press INT' INT
trap 'press QUIT' QUIT
exec 6<&0
"$sw_engine" "$@" <&6 6<&- 8>&- &
sw_client=$!
echo begun >&8
while :; do
    sw_told=
    wait "$sw_client"
    sw_status=$?
    [ -n "$sw_told" ] || break
    [ -n "$sw_ending" ] || continue
    # It was asked to end, and gets the 10 seconds that an engine grants by default.
    sw_ending='' sw_tries=0
    while kill -0 "$sw_client" 2>/dev/null && [ "$sw_tries" -lt 100 ]; do
        sleep 0.1
        sw_tries=$((sw_tries + 1))
    done
    [ "$sw_tries" -lt 100 ] || remove
done
if [ "$sw_status" = 125 ] && [ ! -s "$sw_cid" ]; then
    { engine image inspect --format . "$sw_image" || ! engine ps --quiet; } >/dev/null 2>&1 ||
        printf 'sandbox: %s\n' "$sw_image_missing" >&2
elif [ -n "$sw_signalled" ] || [ "$sw_status" -ge 125 ]; then
    remove
fi
[ ! -e "$sw_session/late" ] || {
    printf 'sandbox: the time limit (resources.time) was reached\n' >&2
    sw_status=124
}
leave
echo 'done' >&8
exit "$sw_status"
