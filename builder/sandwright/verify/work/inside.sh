# Runs inside: WORD WORK DENIAL NEED…; what it says itself begins with the word, which no script knows.
word=$1 work=$2 denial=$3
shift 3
for need do
    case $need in
    *' '*) sh -c "$need" ;;
    *) command -v -- "$need" ;;
    esac >/dev/null 2>&1 </dev/null || { printf '\n%s missing %s\n' "$word" "$need"; exit 0; }
done
for script in "$work" "$denial"; do
    sh -euc "$script" 2>&1 </dev/null
    printf '\n%s end %s\n' "$word" "$?"
done
