/* The fields of a plan, by section: common ones, FIELD(kind, name), and those of a feature or a method, IN(section, kind, name).
 * launcher/plan.py has the same table. No include guard: it is read several times. A WORD that the plan doesn't have is NULL,
 * such a NUMBER -1; PAIRS are words of an even count. */
FIELD(WORD, method)                   /* bwrap, runtime, engine, user, landlock */
FIELD(WORD, refused)                  /* why this can never be run; absent: it can */
FIELD(PAIRS, artifacts)               /* name, sha256 in hex */
FIELD(WORDS, absent)                  /* paths that did not exist when this was rendered, and would be accessible now */
FIELD(PAIRS, denied_names)            /* those at which something may come to be, as spelled, and where each led when rendered: "", nowhere */
FIELD(WORDS, there_directories)       /* paths that are mounted on */
FIELD(WORDS, there_files)
FIELD(WORDS, mount_ways)              /* no links, if they exist: a sandbox could write what mounts are placed in */
FIELD(WORDS, writable)                /* directories that the sandbox can write: no program is taken from them */
FIELD(FLAG, review)                   /* workspace: review, so that a run document has to name the copy of the project */
FIELD(FLAG, mcp)                      /* mcp.tools, so that a run document has to say that the messages are read */
FIELD(NUMBER, uid)                    /* user.mapping is required: for whom this was rendered */
FIELD(WORDS, passed)                  /* names of variables, or beginnings and * */
FIELD(WORDS, never)                   /* the same, of those that are never passed on */
FIELD(WORD, project)
FIELD(WORDS, placeholder_directories)
FIELD(PAIRS, placeholder_files)       /* path and its only line */
FIELD(PAIRS, uncreatable)             /* directory and name: what programs inside can't create, as Landlock and the supervisor refuse it */
FIELD(WORDS, ignored)                 /* placeholders, which a directory with a .gitignore of `*` covers inside; docker and podman: the
                                         fields of --mount that say where one is seen */
FIELD(WORDS, repositories)            /* Git's directories, in which programs inside make no links: mounts of their own */
FIELD(NUMBER, time)                   /* seconds */
FIELD(NUMBER, memory)                 /* bytes, of all processes together */
FIELD(NUMBER, cpus)                   /* thousandths of a processor, the same */
FIELD(NUMBER, pids)
FIELD(NUMBER, files)
FIELD(FLAG, proxy)
FIELD(WORDS, expose)                  /* ports inside that the host's loopback leads to */
FIELD(WORDS, localhost)               /* ports of the host's loopback that the one inside leads to */

SECTION(names) /* names of hosts that lead through the proxy */
IN(names, WORDS, patterns)            /* of hosts, as network.allow has them, that are resolved inside */
IN(names, WORDS, ports)               /* on which they are led through the proxy */
IN(names, WORD, resolver_place)       /* bwrap: where the artifact resolv.conf lies inside, */
IN(names, WORD, hosts_place)          /* and hosts */
END(names)

SECTION(authorities) /* the host's certificates of authorities, in an image's root */
IN(authorities, WORDS, bundles)       /* where the host's certificates of authorities lie inside, as far as there is something */
IN(authorities, WORDS, stores)        /* the same, as Java reads them */
IN(authorities, WORDS, variables)     /* variables that name the first place of `authorities` */
END(authorities)

SECTION(sockets) /* Unix sockets */
IN(sockets, FLAG, supervised)         /* the launcher connects for programs inside */
IN(sockets, FLAG, own)                /* to Unix sockets of their own, too, by their network */
IN(sockets, WORDS, host)              /* and to these, paths on the host */
END(sockets)

SECTION(shims) /* the bridge */
IN(shims, FLAG, enabled)
IN(shims, WORD, place)                /* where the bridge's directory is inside */
IN(shims, WORD, search)               /* PATH inside, behind the bridge's; absent: as given */
IN(shims, FLAG, loopback)
END(shims)

SECTION(backstop) /* Landlock behind the mounts, where the kernel has it */
IN(backstop, FLAG, enabled)           /* Landlock is a second wall, where the kernel has it */
IN(backstop, PAIRS, paths)            /* read or write, and a path of the host that may be */
IN(backstop, WORDS, own)              /* r or w, and a path that is the sandbox's own */
END(backstop)

SECTION(image) /* an unpacked image, for a runtime, or for gVisor in a container */
IN(image, WORD, root)                 /* the root of a runtime, or of gVisor in a container */
IN(image, WORDS, points)              /* paths that the image has to have, since they are mounted on */
IN(image, WORDS, private_names)       /* names at the root that are not the image's */
IN(image, FLAG, host_names)           /* the host's files of names lie over the image's, as they are when the run starts */
END(image)

SECTION(runtime) /* runc, crun, runsc */
IN(runtime, FLAG, gvisor)             /* runsc; otherwise runc, or crun */
IN(runtime, FLAG, rootless)           /* rendered for another user than root */
IN(runtime, WORDS, flags)             /* of all its commands */
IN(runtime, FLAG, own_network)        /* the launcher makes the network namespace, not the runtime */
IN(runtime, PAIRS, config_holes)      /* what a run puts into config.json, and in place of which bytes: "12 34"; in that order */
END(runtime)

SECTION(engine) /* Docker and Podman */
IN(engine, WORD, client)              /* docker or podman, the client */
IN(engine, WORDS, options)            /* of `run`, but for what a run brings */
IN(engine, WORDS, started)            /* what stands before the command: the image, and what gets the command in gVisor's container */
IN(engine, WORD, image_missing)       /* the message where the engine doesn't have the image */
IN(engine, PAIRS, files_inside)       /* a file beside this one, and the fields of --mount that say where it is seen */
IN(engine, WORDS, hidden_files)       /* the fields of --mount that say where a file without rights is seen */
IN(engine, WORDS, binds)              /* r or w, and a path that is shown of the host; none where nothing is read-only */
IN(engine, NUMBER, owner)             /* to whom files that are made belong */
IN(engine, WORDS, controllers)        /* the cgroups that limits need */
IN(engine, WORD, home)                /* of the account inside; absent: the image's accounts stay */
IN(engine, WORDS, callers)            /* accounts that keep their ID inside, if /etc/subuid has one of these */
IN(engine, WORDS, unset)              /* variables that the client doesn't get */
IN(engine, WORD, proxy_image)
IN(engine, WORD, proxy_missing)
IN(engine, WORD, proxy_network)       /* the engine's usual one, which leads out */
IN(engine, WORD, proxy_clients)       /* where the proxy reads whom it serves */
IN(engine, FLAG, proxy_private)       /* names may lead to private addresses, and never to this machine's */
IN(engine, FLAG, watched)             /* the mounts are */
END(engine)

SECTION(user) /* an account of the project's */
IN(user, WORD, account)
IN(user, WORD, root)                  /* the directory on which the root of a run is made */
IN(user, WORD, start_directory)       /* the directory inside in which the command begins */
IN(user, WORDS, settings)             /* NAME=value */
IN(user, FLAG, network)               /* root's half makes a network of the run's own */
END(user)

SECTION(landlock)
IN(landlock, WORDS, settings)         /* NAME=value */
IN(landlock, WORD, start_directory)   /* in which the command begins */
IN(landlock, WORD, temporary)         /* where a directory of the run's own is made, which TMPDIR names; absent: there is none */
IN(landlock, FLAG, ports_closed)      /* TCP is held but for the ports that follow */
IN(landlock, WORDS, ports_connect)
IN(landlock, WORDS, ports_bind)
END(landlock)

SECTION(vm) /* a kernel of the command's, in bubblewrap's sandbox or under Landlock */
IN(vm, WORD, kernel)                  /* the program; absent: the command runs in bubblewrap's sandbox itself */
IN(vm, WORD, accelerator)             /* of QEMU, which the program is: kvm, or in tests tcg; absent: it is User-Mode Linux */
IN(vm, NUMBER, memory)                /* MiB that it has */
IN(vm, NUMBER, cpus)                  /* thousandths of a processor */
IN(vm, WORDS, hidden)                 /* of its own /proc and /sys */
IN(vm, WORDS, readonly)
IN(vm, WORD, hostname)                /* of the machine inside */
IN(vm, PAIRS, links)                  /* of an empty root: a path, and where its link leads */
END(vm)
