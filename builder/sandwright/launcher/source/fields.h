/* The fields of a plan; launcher/plan.py has the same table. No include guard: it is read several times. A word that the plan
 * doesn't have is NULL, such a number -1; PAIRS are words of an even count. */
WORD(method)              /* bwrap, runtime, engine, user, landlock */
WORD(refused)             /* why this can never be run; absent: it can */
PAIRS(artifacts)          /* name, sha256 in hex */
WORDS(absent)             /* what didn't exist when this was rendered, and would be open now */
PAIRS(denied_names)       /* those at which something may come to be, as spelled, and where each led when rendered: "", nowhere */
WORDS(there_directories)  /* what mounts lie on */
WORDS(there_files)
WORDS(writable)           /* directories that the sandbox can write: no program is taken from them */
NUMBER(uid)               /* user.mapping is required: for whom this was rendered */
WORDS(passed)             /* names of variables, or beginnings and * */
WORDS(never)              /* the same, of those that are never passed on */
WORD(project)
WORDS(placeholder_directories)
PAIRS(placeholder_files)  /* path and its only line */
WORDS(ignored)            /* placeholders over which a directory lies inside whose .gitignore says `*`; docker and podman: the
                             fields of --mount that say where one is seen */
NUMBER(time)              /* seconds */
NUMBER(pids)
NUMBER(files)
FLAG(proxy)
WORDS(expose)             /* ports inside that the host's loopback leads to */
WORDS(localhost)          /* ports of the host's loopback that the one inside leads to */
WORDS(names)              /* of hosts, as network.allow has them, that are resolved inside */
WORDS(name_ports)         /* on which they are led through the proxy */
WORD(resolver_place)      /* bwrap: where the artifact resolv.conf lies inside, */
WORD(hosts_place)         /* and hosts */
WORDS(authorities)        /* where the host's certificates of authorities lie inside, as far as there is something */
WORDS(authority_stores)   /* the same, as Java reads them */
WORDS(authority_names)    /* variables that name the first place of `authorities` */
FLAG(supervised)          /* the launcher connects for programs inside */
FLAG(own_sockets)         /* to Unix sockets of their own, too, by their network */
WORDS(host_sockets)       /* and to these, paths on the host */
FLAG(shims)
WORD(shims_place)         /* where the bridge's directory is inside; absent: where it is outside */
WORD(shims_search)        /* PATH inside, behind the bridge's; absent: as given */
FLAG(shims_loopback)
FLAG(wall)                /* Landlock is a second wall, where the kernel has it */
PAIRS(wall_paths)         /* read or write, and a path of the host that may be */
WORDS(wall_own)           /* r or w, and a path that is the sandbox's own */
/* runtime: runc, crun, runsc */
FLAG(gvisor)              /* runsc; otherwise runc, or crun */
FLAG(rootless)            /* rendered for another user than root */
WORDS(runtime_flags)      /* of all its commands */
WORD(image)               /* the root of a runtime, or what is shown to gVisor in a container */
WORDS(image_points)       /* paths that the image has to have, since they are mounted on */
WORDS(image_private)      /* names at the root that are not the image's */
FLAG(own_network)         /* the launcher makes the network namespace, not the runtime */
FLAG(host_names)          /* the host's files of names lie over the image's, as they are when the run starts */
PAIRS(config_holes)       /* what a run puts into config.json, and in place of which bytes: "12 34"; in that order */
/* Docker and Podman (engine.c) */
WORD(engine)          /* docker or podman, the client */
WORDS(options)        /* of `run`, but for what a run brings */
WORDS(started)        /* what stands before the command: the image, and what gets the command in gVisor's container */
WORD(image_missing)   /* what is said where the engine doesn't have the image */
PAIRS(files_inside)   /* a file beside this one, and the fields of --mount that say where it is seen */
WORDS(hidden_files)   /* the fields of --mount that say where a file without rights is seen */
WORDS(binds)          /* r or w, and a path that is shown of the host; none where nothing is read-only */
NUMBER(owner)         /* to whom files that are made belong */
WORDS(controllers)    /* the control groups that limits need */
WORD(home)            /* of the account inside; absent: the image's accounts stay */
WORDS(callers)        /* who keeps the own number inside, if /etc/subuid has one of these */
WORDS(unset)          /* variables that the client doesn't get */
WORD(proxy_image)
WORD(proxy_missing)
WORD(proxy_network)   /* the engine's usual one, which leads out */
WORD(proxy_clients)   /* where the proxy reads whom it serves */
FLAG(proxy_private)   /* names may lead to private addresses, and never to this machine's */
FLAG(watched)         /* the mounts are */
/* user */
WORD(account)
WORD(account_place)       /* the directory on which the root of a run is made */
WORD(account_start)       /* the directory inside in which the command begins */
WORDS(account_settings)   /* NAME=value */
FLAG(account_network)     /* root's half makes a network of the run's own */
/* landlock */
WORDS(settings)           /* NAME=value */
WORD(start_directory)     /* in which the command begins */
WORD(temporary)           /* where a directory of the run's own is made, which TMPDIR names; absent: there is none */
FLAG(ports_closed)        /* TCP is held but for the ports that follow */
WORDS(ports_connect)
WORDS(ports_bind)
/* bwrap with a kernel of its own (vm.c) */
WORD(kernel)              /* the program; absent: the command runs in bubblewrap's sandbox itself */
WORD(accelerator)         /* of QEMU, which the program is: kvm, or in tests tcg; absent: it is User-Mode Linux */
NUMBER(memory)            /* MiB that it has */
NUMBER(cpus)              /* thousandths of a processor */
WORDS(guest_hidden)       /* of its own /proc and /sys */
WORDS(guest_readonly)
/* the same under landlock */
WORD(guest_name)          /* of the machine inside */
PAIRS(guest_links)        /* of an empty root: a path, and where its link leads */
