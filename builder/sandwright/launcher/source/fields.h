/* The fields of a plan: the common ones, FIELD(kind, name), then those of a feature or a method by section,
 * IN(section, kind, name). launcher/plan.py has the same table. There is no include guard, because the file
 * is included several times. If the plan lacks a field, a WORD is NULL and a NUMBER is -1. PAIRS have an even
 * number of words. */
FIELD(WORD, method)                   /* bwrap, runtime, engine, user or landlock */
FIELD(WORD, refused)                  /* the reason why this plan can never be run; absent: it can be run */
FIELD(PAIRS, artifacts)               /* name, sha256 in hex */
/* Paths that did not exist at rendering, and would be accessible inside if they existed now. */
FIELD(WORDS, absent)
/* Denied names that may be created later, as spelled in the policy; for each the path to which it led at
 * rendering, or "". */
FIELD(PAIRS, denied_names)
FIELD(WORDS, there_directories)       /* existing directories that are mount points */
FIELD(WORDS, there_files)
/* Paths that must not be links, if they exist: a mount made through a link could hit a path that a sandbox
 * chose. */
FIELD(WORDS, mount_ways)
/* Directories that the sandbox can write: the launcher executes no program from them. */
FIELD(WORDS, writable)
FIELD(FLAG, review) /* workspace: review; the run document has to name a copy of the project */
FIELD(FLAG, mcp) /* mcp.tools; the run document has to say that a process reads the messages */
FIELD(NUMBER, uid)                    /* with user.mapping: required, the user for whom this was rendered */
FIELD(WORDS, passed)                  /* names of variables, or their beginnings with a `*` */
FIELD(WORDS, never)                   /* the same for variables that are never passed to the command */
FIELD(WORD, project)
FIELD(WORDS, placeholder_directories)
FIELD(PAIRS, placeholder_files)       /* path, and the only line of the file */
/* Directory, and a name that programs inside can't create there: Landlock and the supervisor prevent it. */
FIELD(PAIRS, uncreatable)
/* Placeholders that are covered inside by a directory whose .gitignore is `*`; for docker and podman, the
 * fields of --mount that name the place. */
FIELD(WORDS, ignored)
/* Git directories in which programs inside can't create links, because they are mounts of their own. */
FIELD(WORDS, repositories)
FIELD(NUMBER, time)                   /* seconds */
FIELD(NUMBER, memory)                 /* bytes, for all processes together */
FIELD(NUMBER, cpus)                   /* thousandths of a processor, for all processes together */
FIELD(NUMBER, pids)
FIELD(NUMBER, files)
FIELD(FLAG, proxy)
FIELD(WORDS, expose)                  /* ports inside to which ports of the host's loopback are forwarded */
FIELD(WORDS, localhost)               /* ports of the host's loopback to which ports inside are forwarded */

SECTION(names) /* host names that are reached through the proxy */
IN(names, WORDS, patterns) /* patterns of host names, as in network.allow, that are resolved inside */
IN(names, WORDS, ports)               /* the ports on which connections to these hosts go through the proxy */
IN(names, WORD, resolver_place)       /* bwrap: the path inside of the artifact resolv.conf */
IN(names, WORD, hosts_place)          /* bwrap: the path inside of the artifact hosts */
END(names)

SECTION(authorities) /* the host's CA certificates, for the root of an image */
IN(authorities, WORDS, bundles) /* paths inside for a bundle of the certificates; those that exist are used */
/* Paths inside for a key store of Java with the certificates; those that exist are used. */
IN(authorities, WORDS, stores)
IN(authorities, WORDS, variables)     /* variables that are set to the first path of `bundles` */
END(authorities)

SECTION(sockets)
IN(sockets, FLAG, supervised)         /* the supervisor makes the connections of programs inside */
IN(sockets, FLAG, own) /* programs inside may connect to Unix sockets in their own network namespace, too */
IN(sockets, WORDS, host)              /* paths of the host's Unix sockets to which they may connect, too */
END(sockets)

SECTION(shims)
IN(shims, FLAG, enabled)
IN(shims, WORD, place)                /* the directory of the bridge inside */
IN(shims, WORD, search) /* PATH inside, after the bridge's directory; absent: PATH as the caller set it */
IN(shims, FLAG, loopback)
END(shims)

SECTION(backstop) /* Landlock as a second wall behind the mounts */
IN(backstop, FLAG, enabled)           /* the second wall is wanted, if the kernel supports it */
IN(backstop, PAIRS, paths)            /* `read` or `write`, and a path of the host on which this is allowed */
IN(backstop, WORDS, own)              /* `r` or `w`, and a path that belongs to the sandbox */
END(backstop)

SECTION(image) /* an unpacked image, as the root of an OCI runtime, or of gVisor in a container */
IN(image, WORD, root)                 /* the directory of the unpacked image */
IN(image, WORDS, points)              /* paths that the image must contain, because they are mount points */
IN(image, WORDS, private_names)       /* names at the root that do not come from the image */
/* The host's hosts and resolver files, as they are when the run starts, are mounted over the image's. */
IN(image, FLAG, host_names)
END(image)

SECTION(runtime) /* runc, crun, runsc */
IN(runtime, FLAG, gvisor)             /* runsc; otherwise runc or crun */
IN(runtime, FLAG, rootless)           /* rendered for a user other than root */
IN(runtime, WORDS, flags)             /* global options, for every command of the runtime */
IN(runtime, FLAG, own_network)        /* the launcher creates the network namespace, not the runtime */
/* Values that a run inserts into config.json, in this order, and the bytes that each replaces, as "12 34". */
IN(runtime, PAIRS, config_holes)
END(runtime)

SECTION(engine) /* Docker and Podman */
IN(engine, WORD, client)              /* the client, docker or podman */
IN(engine, WORDS, options)            /* options of `run`, without those that depend on the run */
/* The words before the command: the image, and the words that start the command in gVisor's container. */
IN(engine, WORDS, started)
IN(engine, WORD, image_missing)       /* the message if the engine does not have the image */
/* A file beside the plan, and the fields of --mount that name its path inside. */
IN(engine, PAIRS, files_inside)
/* The fields of --mount for paths that are covered by a file without permissions. */
IN(engine, WORDS, hidden_files)
/* `r` or `w`, and a path of the host that is mounted; empty if nothing is read-only. */
IN(engine, WORDS, binds)
IN(engine, NUMBER, owner)             /* the owner of the files that are created for a run */
IN(engine, WORDS, controllers)        /* the cgroup controllers that the limits need */
IN(engine, WORD, home) /* the home directory of the account inside; absent: the image's accounts are kept */
IN(engine, WORDS, callers) /* accounts that keep their ID inside, if /etc/subuid lists one of them */
IN(engine, WORDS, unset)              /* variables that are removed from the client's environment */
IN(engine, WORD, proxy_image)
IN(engine, WORD, proxy_missing)
/* The engine's default network, through which the proxy reaches other hosts. */
IN(engine, WORD, proxy_network)
IN(engine, WORD, proxy_clients)       /* the file in which the proxy reads the addresses of its clients */
/* Host names may resolve to private addresses, but never to an address of this machine. */
IN(engine, FLAG, proxy_private)
IN(engine, FLAG, watched)             /* the mount watch checks the container's mounts */
END(engine)

SECTION(user) /* an account for each project */
IN(user, WORD, account)
IN(user, WORD, root)                  /* the directory on which the root of a run is mounted */
IN(user, WORD, start_directory)       /* the directory inside in which the command starts */
IN(user, WORDS, settings)             /* variables, as NAME=value */
IN(user, FLAG, network)               /* the root half creates a network namespace for the run */
END(user)

SECTION(landlock)
IN(landlock, WORDS, settings)         /* variables, as NAME=value */
IN(landlock, WORD, start_directory)   /* the directory in which the command starts */
/* The directory in which a private directory is created for TMPDIR; absent: there is none. */
IN(landlock, WORD, temporary)
IN(landlock, FLAG, ports_closed)      /* Landlock allows TCP on the following ports only */
IN(landlock, WORDS, ports_connect)
IN(landlock, WORDS, ports_bind)
END(landlock)

SECTION(vm) /* a guest kernel for the command, in bubblewrap's sandbox or under Landlock */
/* The kernel or its emulator, a program; absent: bubblewrap's sandbox uses the host's kernel. */
IN(vm, WORD, kernel)
/* QEMU's accelerator: kvm, or tcg in tests; absent: the program is User-Mode Linux. */
IN(vm, WORD, accelerator)
IN(vm, NUMBER, memory)                /* the guest's memory in MiB */
IN(vm, NUMBER, cpus)                  /* thousandths of a processor */
IN(vm, WORDS, hidden)                 /* paths in the guest's /proc and /sys */
IN(vm, WORDS, readonly)
IN(vm, WORD, hostname)                /* of the guest */
IN(vm, PAIRS, links)                  /* links in an otherwise empty root: path, target */
END(vm)
