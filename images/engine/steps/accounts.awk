# Reads `users`, `groups` and the files NAME.before; writes the changed ones as NAME.after. Fields: passwd(5), group(5).

function refuse(text) {
    print text > "/dev/stderr"
    refused = 1
    exit 1
}

function read_before(file, keep,    line) {
    count[file] = 0
    present[file] = 0
    while ((line_read = (getline line < (file ".before"))) > 0) {
        lines[file, ++count[file]] = line
        if (keep && split(line, field, ":") >= 4 && field[1] != "" && field[3] ~ /^[0-9]+$/) {
            if (!((file, "name", field[1]) in known)) {
                known[file, "name", field[1]] = field[3]
            }
            if (!((file, "number", field[3] + 0) in known)) {
                known[file, "number", field[3] + 0] = field[1]
            }
        }
    }
    present[file] = (line_read == 0)
    close(file ".before")
}

function taken(kind, file, name, number) {
    if ((file, "name", name) in known) {
        refuse("cannot add " kind " '" name "': the base has it, with number " known[file, "name", name])
    }
    if ((file, "number", number + 0) in known) {
        refuse("cannot add " kind " '" name "': its number " number " is that of '" \
            known[file, "number", number + 0] "' in the base")
    }
}

function add(file, line) {
    changed[file] = 1
    lines[file, ++count[file]] = line
}

function add_user(line) {
    split(line, user, ":")
    taken("user", "passwd", user[1], user[3])
    add("passwd", line)
    if (present["shadow"]) {
        add("shadow", user[1] ":!::0:99999:7:::")
    }
}

function add_group(line) {
    split(line, group, ":")
    if ((("group", "name", group[1]) in known) && known["group", "name", group[1]] + 0 == group[3] + 0) {
        join_group(group[1], group[4])
        return
    }
    taken("group", "group", group[1], group[3])
    add("group", line)
    if (present["gshadow"]) {
        add("gshadow", group[1] ":!::" group[4])
    }
}

# A group that is there with the same number gains members.
function join_group(name, more,    at, fields, total, each, members, has) {
    for (at = 1; at <= count["group"]; at++) {
        fields = split(lines["group", at], field, ":")
        if (fields >= 4 && field[1] == name) {
            members = ""
            split("", has)
            total = split(field[4] "," more, member, ",")
            for (each = 1; each <= total; each++) {
                if (member[each] != "" && !(member[each] in has)) {
                    has[member[each]] = 1
                    members = members (members == "" ? "" : ",") member[each]
                }
            }
            if (lines["group", at] != (name ":x:" field[3] ":" members)) {
                lines["group", at] = name ":x:" field[3] ":" members
                changed["group"] = 1
            }
        }
    }
}

function write_after(file,    at) {
    if (!changed[file]) {
        return
    }
    for (at = 1; at <= count[file]; at++) {
        print lines[file, at] > (file ".after")
    }
    close(file ".after")
}

BEGIN {
    read_before("passwd", 1)
    read_before("group", 1)
    read_before("shadow", 0)
    read_before("gshadow", 0)
    while ((getline line < "users") > 0) {
        add_user(line)
    }
    while ((getline line < "groups") > 0) {
        add_group(line)
    }
    write_after("passwd")
    write_after("group")
    write_after("shadow")
    write_after("gshadow")
}
