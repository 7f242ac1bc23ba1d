#!/bin/sh
# launch COMMAND [ARGUMENT ...]: runs the command as a Job in kubectl's cluster, prints its output (both streams as one; the
# command has no input), and exits with its status; with 124 if its time was up, and with 125 if it was not run as
# rendered. The Job is removed in any case. Somebody with the rights must create the namespace and the volume `project` in
# it once: `kubectl apply -k` of this directory. No variable of the host is passed on.
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
# Checks that what was rendered with this file is unchanged.
verify() { # NAME DIGEST
    sw_sum=$(sha256sum <"$sw_here/$1") || refuse "cannot read $sw_here/$1"
    [ "${sw_sum%% *}" = "$2" ] || refuse "$sw_here/$1 was changed after it was rendered: render it again"
}
verify variables.sh 0000000000000000000000000000000000000000000000000000000000000000
# shellcheck source-path=SCRIPTDIR source=variables.sh
. "$sw_here/variables.sh"
manifests verify

command -v kubectl >/dev/null 2>&1 || refuse 'kubectl is not installed'
kube() {
    kubectl --namespace "$sw_name" "$@"
}

kube get namespace "$sw_name" -o name >/dev/null ||
    refuse "there is no namespace $sw_name, or the cluster does not answer: kubectl apply -k $sw_here"
apply() { # FILE ...
    for sw_file do
        kube apply -f "$sw_here/$sw_file" >/dev/null || refuse "the cluster refused $sw_file: nothing was run"
    done
}
closing apply
[ -z "$sw_proxied" ] || kube rollout status deployment/proxy --timeout=120s >/dev/null || refuse 'the proxy does not start'

# Creates the Job, with a generated name and the command. Kubernetes reads `$$` as a dollar sign. The other escapes are YAML's, for
# characters that it would not read unchanged: control characters, and line breaks that become blanks.
sw_job=$(LC_ALL=C awk '
function quote(text,    i, c, out) {
    out = ""
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (substr(text, i, 2) in wide) out = out wide[substr(text, i++, 2)]
        else if (substr(text, i, 3) in wide) { out = out wide[substr(text, i, 3)]; i += 2 }
        else out = out (c in escape ? escape[c] : c)
    }
    return "\"" out "\""
}
BEGIN {
    for (i = 1; i < 32; i++) escape[sprintf("%c", i)] = sprintf("\\x%02x", i)
    escape["\""] = "\\\""
    escape["\\"] = "\\\\"
    escape["$"] = "$$"
    escape["\177"] = "\\x7f"
    wide["\302\205"] = "\\N"
    wide["\342\200\250"] = "\\L"
    wide["\342\200\251"] = "\\P"
    wide["\357\273\277"] = "\\uFEFF"
    while ((status = (getline line < ARGV[1])) > 0) {
        if (line == "  name: " ARGV[2]) {
            line = "  generateName: " ARGV[2] "-"
        } else if (line == "        command: []") {
            print "        command:"
            for (i = 3; i < ARGC; i++) print "        - " quote(ARGV[i])
            continue
        }
        print line
    }
    exit status < 0
}' "$sw_here/job.yaml" "$sw_name" "$@" | kube create -o name -f -) && [ -n "$sw_job" ] || refuse 'the cluster refused the Job'
sw_log=
gone() {
    [ -z "$sw_log" ] || kill "$sw_log" 2>/dev/null
    kube delete --wait=false --cascade=foreground "$sw_job" >/dev/null 2>&1
}
trap gone EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Prints a field of the Pod, or of the Job; nothing if there is none.
pod() {
    kube get pods -l "job-name=${sw_job#*/}" -o "jsonpath={.items[0]$1}" 2>/dev/null
}
ended() {
    kube get "$sw_job" -o 'jsonpath={.status.conditions[?(@.type=="Failed")].reason}' 2>/dev/null
}
late() {
    printf 'sandbox: the time limit (resources.time) was reached\n' >&2
    exit 124
}

while :; do
    case $(pod .status.phase) in
    Running | Succeeded | Failed) break ;;
    esac
    case $(pod .status.containerStatuses[0].state.waiting.reason) in
    *Err* | *BackOff | Invalid*) refuse "the Pod does not start: $(pod .status.containerStatuses[0].state.waiting.message)" ;;
    esac
    case $(ended) in
    '') sleep "${SANDWRIGHT_POLL:-1}" ;;
    DeadlineExceeded) late ;;
    *) refuse "the Job failed before it ran: $(ended)" ;;
    esac
done

# In the background, because a shell does not handle signals while it waits for a program in the foreground.
kube logs --follow "$(pod .metadata.name)" -c sandbox &
sw_log=$!
wait "$sw_log"
while :; do
    sw_status=$(pod .status.containerStatuses[0].state.terminated.exitCode)
    case $(ended)$(pod .status.reason) in
    *DeadlineExceeded*) late ;;
    esac
    case $sw_status in
    '') [ -n "$(pod .metadata.name)" ] || refuse 'the Pod is gone, so the exit status of the command is unknown' ;;
    *) exit "$sw_status" ;;
    esac
    sleep "${SANDWRIGHT_POLL:-1}"
done
