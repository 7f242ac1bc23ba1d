# Writes the configuration of one session from the one that all share. Its lines are known, as strings hold no line breaks there.
#
#   awk -f bundle.awk TEMPLATE ROOT COUNT DIRECTORY... COMMAND...
#
# COUNT names of ROOT are mounted read-only. $SANDWRIGHT_PASSED names the variables that are passed on, $SANDWRIGHT_TERMINAL
# is what the template says of the terminal, $SANDWRIGHT_JOIN is not empty where the sandbox uses this container's network.
function json(text,    i, c, out) {
    out = ""
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        out = out (c in escape ? escape[c] : c)
    }
    return "\"" out "\""
}
BEGIN {
    for (i = 1; i < 32; i++) escape[sprintf("%c", i)] = sprintf("\\u%04x", i)
    escape["\""] = "\\\""
    escape["\\"] = "\\\\"
    template = ARGV[1]; root = ARGV[2]; first = 4 + ARGV[3]
    while ((status = (getline line < template)) > 0) {
        if (line == "    \"args\": [") {
            print line
            for (i = first; i < ARGC; i++) print "      " json(ARGV[i]) (i < ARGC - 1 ? "," : "")
            while ((getline line < template) > 0 && line !~ /^    \]/) continue
        } else if (line == "    \"env\": [" || line == "    \"env\": [],") {
            count = split(ENVIRON["SANDWRIGHT_PASSED"], names, " ")
            printf "    \"env\": ["
            for (i = 1; i <= count; i++)
                printf "%s\n      %s", (i > 1 ? "," : ""), json(names[i] "=" ENVIRON[names[i]])
            line = (line ~ /\]/ ? "\n    ]," : (count ? "," : ""))
        } else if (line == "    \"terminal\": false,") {
            line = "    \"terminal\": " ENVIRON["SANDWRIGHT_TERMINAL"] ","
        } else if (line == "      {\"type\": \"network\"}," && ENVIRON["SANDWRIGHT_JOIN"] != "") {
            continue
        } else if (line == "  \"mounts\": [") {
            print line
            for (i = 4; i < first; i++) {
                printf "    {\"destination\": %s, \"type\": \"bind\", ", json("/" ARGV[i])
                printf "\"source\": %s, ", json(root "/" ARGV[i])
                print "\"options\": [\"rbind\", \"rprivate\", \"nosuid\", \"nodev\", \"ro\"]},"
            }
            continue
        }
        print line
    }
    exit status < 0
}
