#compdef sandwright
_sandwright() {
    local -a tasks
    if (( CURRENT == 2 )); then
        tasks=(
            'account-remove:Take a project'"'"'s account away, with its home; what it made in the project becomes its owner'"'"'s.'
            'account-setup:Make the account that the method `user` runs a project'"'"'s commands as, and share the project with it.'
            'bridge:Run a rendered launcher beside a bridge: `bridge [options] -- .sandbox/bwrap/launch COMMAND`.'
            'build-images:Build images for all their platforms, unpack them, and start them under every runtime there is.'
            'bundle:Make an OCI runtime bundle of an image; `-- COMMAND` replaces what the image starts.'
            'check-image:Look an image over: documents, layers, files, configuration, secrets, size. Fails on an error.'
            'cleanup:Remove what sessions left behind that were killed; never what runs, or isn'"'"'t ours.'
            'completion:Print the completion script of a shell, which holds all tasks and options.'
            'dockerfile:Render the Dockerfile of an image, and, with --to, everything that it needs for a build.'
            'doctor:Say which methods work here, by starting a sandbox of each; what the others lack, and how to get it.'
            'explain:Say what a policy answers to a question, and what each method'"'"'s artifacts do, by which rule.'
            'export-image:Write a built image as one archive that `docker load` and `podman load` take.'
            'facts:Print what a policy needs to know of this host as JSON, to render for it elsewhere with --facts.'
            'init:Look at a project and propose a sandbox.yaml, with a comment for each choice.'
            'lint:Say what is likely wrong in a profile or policy, whoever wrote it; fail on an error.'
            'lock-diff:Print what the locks of images change, package by package, in Markdown.'
            'lock-images:Resolve the packages of images with apt, and the references of bases; write the lock files.'
            'minimise-capabilities:Find the least capabilities and system calls with which gVisor works in a container.'
            'prove:Prove the presets that ship, with every method that works here, and write reports to build/verify.'
            'prove-image:Prove sandboxes on a built image, and keep the matrix as evidence about its digest.'
            'prove-mapping:Prove whom an image with `config.init` runs as, started in every way, and whose the new files are.'
            'publish:Publish built images with SBOM, provenance, evidence and signature; tags move when all is read back.'
            'pull-image:Pull an image into an OCI layout, every part compared with its digest.'
            'push-image:Push an image with all its platforms: by digest, read back and compared, and tagged at the end.'
            'render:Render the artifacts of a policy, with a manifest of their digests.'
            'run:Run a command in the sandbox of a policy: `run [options] -- COMMAND`; exits as the command does.'
            'sbom:Write the SBOM of a built image: every package, and every file, those that no package owns too.'
            'sbpl-eval:Say whether a Seatbelt profile allows an operation, and which rule at which line decides.'
            'schema:Print the JSON Schema of a document, for editors.'
            'seccomp-eval:Say what a seccomp profile does with a system call, and by which rule.'
            'setup:Install what comes from the distribution, saying first what that is. Needs root or sudo.'
            'shim-check:Say what the host would be given for a shim'"'"'s call, without running it: `shim-check -- git push`.'
            'status:Show the sessions of this user that run, and what is enforced in each.'
            'trust:Show what a policy lets through that `default` doesn'"'"'t, and let it, once for what it says now.'
            'verify:Prove a policy: attempt in a real sandbox what it denies and what it allows.'
            'verify-image:Check a published image: whose signature it has, provenance, SBOM, evidence, every byte.'
        )
        _describe -t tasks task tasks
        return
    fi
    shift words
    (( CURRENT-- ))
    case $words[1] in
        account-remove) _arguments \
            '--project=[the project'"'"'s directory, which may be gone (absent\: this one)]:value:_files' \
            '--yes[do it, instead of only saying what would be done]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        account-setup) _arguments \
            '--policy=[the project'"'"'s policy (absent\: sandbox.yaml); what it lets be written is shared]:value:_files' \
            '--yes[do it, instead of only saying what would be done]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        bridge) _arguments \
            '--policy=[the project'"'"'s policy (absent\: sandbox.yaml)]:value:_files' \
            '*--set=[a setting of this run, FIELD=VALUE; may be given several times]:value:_files' \
            '--trust-policy[go on although the policy loosens what `default` protects, and nobody gave the word for it yet]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        build-images) _arguments \
            '*--name=[an image; may be given several times (absent\: all)]:value:_files' \
            '*--platform=[linux/amd64 or linux/arm64; may be given several times (absent\: both)]:value:_files' \
            '--images=[directory of image definitions (absent\: those that ship)]:value:_files' \
            '--output=[directory for everything that is made (absent\: build)]:value:_files' \
            '--mirror=[package mirror\: ADDRESS, or debian=ADDRESS,debian-security=ADDRESS (absent\: as apt here)]:value:_files' \
            '--frozen[an error, instead of locking again, when a lock is stale or a package is gone]' \
            '--verify[compare every blob that is there with its digest]' \
            '--smoke[start every image under every runtime that is there]' \
            '*--runtime=[a runtime to start images under; may be given several times (absent\: all)]:value:_files' \
            '*--require=[a runtime that must be there; may be given several times]:value:_files' \
            '--again[smoke-run also what passed before and has not changed; with --engine\: without its cache]' \
            '--strict[an error, instead of leaving an image out, when the registry of its base can'"'"'t be reached]' \
            '--dry-run[only say what would be built, and why]' \
            '--engine=[docker, podman or buildah\: build there, from Dockerfiles; for this machine'"'"'s platform alone unless others are named]:value:_files' \
            '--builder=[with --engine\: image for the first stages, pinned as name@sha256\:… (absent\: ours)]:value:_files' \
            '--compare[with --engine\: compare every file with what is built without one]' \
            '*--insecure=[a registry, HOST\[\:PORT\], that may be spoken to without TLS; may be given several times]:value:_files' \
            '--authorities=[file of certificates to trust in place of the machine'"'"'s]:value:_files' \
            '--logins=[file of logins, as docker and podman write them (absent\: theirs); '"'"'none'"'"' for nobody]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        bundle) _arguments \
            '--platform=[linux/amd64 or linux/arm64 (absent\: this machine'"'"'s)]:value:_files' \
            '--ref=[which of the image'"'"'s references, where there are several]:value:_files' \
            '--bundle=[directory for the bundle (absent\: OUTPUT/bundles/NAME-ARCHITECTURE)]:value:_files' \
            '--output=[directory for everything that is made (absent\: build)]:value:_files' \
            '*--minimal=[keep only what these programs need; several in one word, or given several times]:value:_files' \
            '*--keep=[with --minimal\: a path or pattern to keep as well]:value:_files' \
            '*--drop=[with --minimal\: a path or pattern not to keep]:value:_files' \
            '*--trace=[with --minimal\: a command line to run in the full root, to keep what it opens]:value:_files' \
            '--dependencies[with --minimal\: keep the data of packages that the programs'"'"' packages depend on]' \
            '--writable[give the bundle a writable root of its own]' \
            '--init[give it the capabilities by which a first process that starts as root becomes somebody else]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        check-image) _arguments \
            '--platform=[linux/amd64 or linux/arm64 (absent\: all of an image of ours, else this machine'"'"'s)]:value:_files' \
            '--ref=[which of the image'"'"'s references, where there are several]:value:_files' \
            '--output=[directory that build-images wrote to (absent\: build)]:value:_files' \
            '--budget=[what its packed layers may weigh, such as 80MB]:value:_files' \
            '*--accept=[RULE=REASON or RULE\:PATTERN=REASON\: take it as it is; may be given several times]:value:_files' \
            '*--structure=[a file of container-structure-test; may be given several times]:value:_files' \
            '--runtime=[runtimes that its commands are started under, R\[,R...\] (absent\: all that work here)]:value:_files' \
            '--json=[write the findings to this file]:value:_files' \
            '--sarif=[write them as SARIF 2.1.0 to this file]:value:_files' \
            '--junit=[write them as JUnit'"'"'s XML to this file]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        cleanup) _arguments \
            '--dry-run[only say what would be removed]' \
            '--json[answer as one JSON object]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        completion) _arguments \
            '--help[say what it does and takes]' \
            '1:word:(bash fish zsh)' ;;
        dockerfile) _arguments \
            '--platform=[linux/amd64 or linux/arm64 (absent\: this machine'"'"'s)]:value:_files' \
            '--to=[directory for the whole context, packages and all (absent\: print the Dockerfile alone)]:value:_files' \
            '--images=[directory of image definitions (absent\: those that ship)]:value:_files' \
            '--builder=[image for the first stages, pinned as name@sha256\:… (absent\: one of ours, loaded into the engine)]:value:_files' \
            '--mirror=[package mirror\: ADDRESS, or debian=ADDRESS,debian-security=ADDRESS (absent\: as apt here)]:value:_files' \
            '--frozen[an error, instead of locking again, when a lock is stale]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        doctor) _arguments \
            '*--method=[only this method; may be given several times]:value:(bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop)' \
            '--fresh[start each sandbox anew, also where nothing has changed since the last time]' \
            '--json[answer as one JSON object]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        explain) _arguments \
            '--policy=[the project'"'"'s policy (absent\: sandbox.yaml)]:value:_files' \
            '*--method=[a method to ask; may be given several times (absent\: all)]:value:(bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop)' \
            '*--arch=[an architecture to ask for, amd64 or arm64; may be given several times (absent\: the host'"'"'s)]:value:_files' \
            '--facts=[explain for the host that this JSON file tells of (`sandwright facts`), not for this one]:value:_files' \
            '*--set=[a setting of this run, FIELD=VALUE such as network.mode=none; may be given several times]:value:_files' \
            '--json[answer as one JSON object]' \
            '--help[say what it does and takes]' \
            '1:word:(read write exec connect env syscall)' ;;
        export-image) _arguments \
            '--to=[file to write (absent\: NAME-ARCHITECTURE.tar)]:value:_files' \
            '--platform=[linux/amd64 or linux/arm64 (absent\: this machine'"'"'s)]:value:_files' \
            '--reference=[name the image gets when it is loaded (absent\: sandwright/NAME\:latest)]:value:_files' \
            '--output=[directory for everything that is made (absent\: build)]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        facts) _arguments \
            '--policy=[the project'"'"'s policy (absent\: sandbox.yaml)]:value:_files' \
            '*--set=[a setting of this run, FIELD=VALUE such as network.mode=none; may be given several times]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        init) _arguments \
            '--directory=[the project'"'"'s directory (absent\: this one)]:value:_files' \
            '--method=[the method to name in the policy (absent\: the first that works here)]:value:(bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop)' \
            '--yes[write it without asking]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        lint) _arguments \
            '--facts=[for a policy\: the host that this JSON file tells of (`sandwright facts`), not this one]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        lock-diff) _arguments \
            '--images=[the directory of images as it is (absent\: images)]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        lock-images) _arguments \
            '*--name=[an image; may be given several times (absent\: all)]:value:_files' \
            '--images=[directory of image definitions (absent\: those that ship)]:value:_files' \
            '--mirror=[package mirror\: ADDRESS, or debian=ADDRESS,debian-security=ADDRESS (absent\: as apt here)]:value:_files' \
            '--check[change nothing; fail when a lock is missing or does not fit its definition]' \
            '--strict[an error, instead of leaving an image out, when the registry of its base can'"'"'t be reached]' \
            '*--insecure=[a registry, HOST\[\:PORT\], that may be spoken to without TLS; may be given several times]:value:_files' \
            '--authorities=[file of certificates to trust in place of the machine'"'"'s]:value:_files' \
            '--logins=[file of logins, as docker and podman write them (absent\: theirs); '"'"'none'"'"' for nobody]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        minimise-capabilities) _arguments \
            '*--engine=[docker or podman; may be given several times (absent\: both)]:value:_files' \
            '*--mode=[rootful or rootless\: whether runsc is root there; may be given several times (absent\: both)]:value:_files' \
            '--rootfs=[an unpacked root with a shell (absent\: that of the image debian in build/)]:value:_files' \
            '--to=[file to write what was measured to (absent\: build/outer.json)]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        prove) _arguments \
            '*--preset=[a preset that ships; may be given several times (absent\: all)]:value:_files' \
            '--method=[methods to prove them with, M\[,M...\] (absent\: all)]:value:(bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop)' \
            '--require=[methods, M\[,M...\], of which a skip is a failure]:value:_files' \
            '--output=[directory that images are built in; the reports go into its directory verify]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        prove-image) _arguments \
            '--method=[methods that run on the image'"'"'s own root\: oci, gvisor, or both (absent\: oci)]:value:(bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop)' \
            '--policy=[a policy to prove on it (absent\: one that lets the project be written, and no network)]:value:_files' \
            '--output=[directory for everything that is made (absent\: build)]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        prove-mapping) _arguments \
            '--runtime=[runtimes, R\[,R...\] (absent\: runc, runsc, docker and podman)]:value:_files' \
            '--output=[directory that images are built in (absent\: build)]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        publish) _arguments \
            '--to=[HOST/PREFIX, below which each image gets its name (or\: the last plain word)]:value:_files' \
            '--key=[private key\: a PEM file (its password in SANDWRIGHT_KEY_PASSWORD), or a key service'"'"'s URI]:value:_files' \
            '--public-key=[the key'"'"'s public half or certificate; a key service needs it]:value:_files' \
            '--keyless[sign by an identity, with a certificate of minutes and a public log, in place of a key]' \
            '--token=[file of the identity'"'"'s token (absent\: that which a CI system gives)]:value:_files' \
            '--trust=[Sigstore'"'"'s trust configuration in JSON, for services of one'"'"'s own (absent\: the public ones)]:value:_files' \
            '*--tag=[a tag; may be given several times (absent\: latest)]:value:_files' \
            '*--require=[a runtime under which it must have passed; may be given several times]:value:_files' \
            '*--matrix=[a method by which prove-image must have proved it; may be given several times (absent\: one of them, whichever; none\: not at all, for an image that no sandbox runs on)]:value:_files' \
            '--builder=[URI that says in the provenance who builds (absent\: urn\:sandwright\:builder)]:value:_files' \
            '--dry-run[only say what would be done]' \
            '--images=[directory of image definitions (absent\: those that ship)]:value:_files' \
            '--output=[directory for everything that is made (absent\: build)]:value:_files' \
            '--mirror=[package mirror\: ADDRESS, or debian=ADDRESS,debian-security=ADDRESS (absent\: as apt here)]:value:_files' \
            '*--insecure=[a registry, HOST\[\:PORT\], that may be spoken to without TLS; may be given several times]:value:_files' \
            '--authorities=[file of certificates to trust in place of the machine'"'"'s]:value:_files' \
            '--logins=[file of logins, as docker and podman write them (absent\: theirs); '"'"'none'"'"' for nobody]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        pull-image) _arguments \
            '--to=[directory for the OCI layout (absent\: OUTPUT/pulled/REPOSITORY)]:value:_files' \
            '*--platform=[a platform, as linux/amd64; may be given several times (absent\: all)]:value:_files' \
            '--output=[directory for everything that is made (absent\: build)]:value:_files' \
            '*--insecure=[a registry, HOST\[\:PORT\], that may be spoken to without TLS; may be given several times]:value:_files' \
            '--authorities=[file of certificates to trust in place of the machine'"'"'s]:value:_files' \
            '--logins=[file of logins, as docker and podman write them (absent\: theirs); '"'"'none'"'"' for nobody]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        push-image) _arguments \
            '*--tag=[one more tag; may be given several times]:value:_files' \
            '*--mount-from=[a repository of the same registry that has layers of it; may be given several times]:value:_files' \
            '--ref=[which of the image'"'"'s references, where there are several (absent\: all platforms)]:value:_files' \
            '--output=[directory for everything that is made (absent\: build)]:value:_files' \
            '*--insecure=[a registry, HOST\[\:PORT\], that may be spoken to without TLS; may be given several times]:value:_files' \
            '--authorities=[file of certificates to trust in place of the machine'"'"'s]:value:_files' \
            '--logins=[file of logins, as docker and podman write them (absent\: theirs); '"'"'none'"'"' for nobody]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        render) _arguments \
            '--policy=[the project'"'"'s policy (absent\: sandbox.yaml)]:value:_files' \
            '*--method=[a method to render; may be given several times (absent\: the policy'"'"'s own)]:value:(bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop)' \
            '--out=[directory; a method'"'"'s artifacts go into one of its name below it (absent\: .sandbox)]:value:_files' \
            '--facts=[render for the host that this JSON file tells of (`sandwright facts`), not for this one]:value:_files' \
            '*--set=[a setting of this run, FIELD=VALUE such as network.mode=none; may be given several times]:value:_files' \
            '--check[write nothing; fail when what is there is not what would be rendered]' \
            '--diff[write nothing; show what would change]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        run) _arguments \
            '--policy=[the project'"'"'s policy (absent\: sandbox.yaml)]:value:_files' \
            '--method=[the method of this run, in place of the policy'"'"'s own]:value:(bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop)' \
            '--outer=[the engine whose container gVisor runs in\: docker, podman (as --set outer=…)]:value:_files' \
            '*--set=[a setting of this run, FIELD=VALUE such as network.mode=none; may be given several times]:value:_files' \
            '--time=[end it after this time\: 90, 30m (as --set resources.time=…)]:value:_files' \
            '--cidfile=[write the container'"'"'s id, or the session'"'"'s without an engine, to this new file]:value:_files' \
            '--telemetry=[append a line about the session to this file (absent\: what SANDWRIGHT_TELEMETRY names)]:value:_files' \
            '--trust-policy[go on although the policy loosens what `default` protects, and nobody gave the word for it yet]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        sbom) _arguments \
            '--format=[cyclonedx or spdx (absent\: cyclonedx)]:value:_files' \
            '--platform=[linux/amd64 or linux/arm64 (absent\: this machine'"'"'s)]:value:_files' \
            '--to=[file to write, or to check; '"'"'-'"'"' for standard output (absent\: in OUTPUT/release/NAME)]:value:_files' \
            '--check[change nothing; compare the SBOM that is there with the built image, file for file]' \
            '--images=[directory of image definitions (absent\: those that ship)]:value:_files' \
            '--output=[directory for everything that is made (absent\: build)]:value:_files' \
            '--mirror=[package mirror\: ADDRESS, or debian=ADDRESS,debian-security=ADDRESS (absent\: as apt here)]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        sbpl-eval) _arguments \
            '*--resource=[what is operated on, KEY=VALUE\: path=/etc/hosts, remote=tcp\:localhost\:80, …]:value:_files' \
            '*-D[a parameter of the profile, KEY=VALUE]:value:_files' \
            '*--symlink=[a symbolic link of the host, FROM=TO]:value:_files' \
            '*--include=[a directory with profiles that are imported, as a Mac'"'"'s; may be given several times]:value:_files' \
            '--fragment[it is part of a profile\: (version 1) and (deny default) are assumed before it]' \
            '--batch=[questions as JSON lines\: a file, or - for standard input; instead of profile and operation]:value:_files' \
            '--json[answer as one JSON object]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        schema) _arguments \
            '--help[say what it does and takes]' \
            '1:word:(policy image)' ;;
        seccomp-eval) _arguments \
            '--arch=[amd64, arm64, or i386 and the like for a second ABI (absent\: amd64)]:value:_files' \
            '*--cap=[a capability that the container has; may be given several times]:value:_files' \
            '--json[answer as one JSON object]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        setup) _arguments \
            '*--group=[build, smoke or test; may be given several times (absent\: build and smoke)]:value:_files' \
            '--dry-run[only say what would be done]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        shim-check) _arguments \
            '--policy=[the project'"'"'s policy (absent\: sandbox.yaml)]:value:_files' \
            '*--set=[a setting of this run, FIELD=VALUE; may be given several times]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        status) _arguments \
            '--json[answer as one JSON object]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        trust) _arguments \
            '--policy=[the project'"'"'s policy (absent\: sandbox.yaml)]:value:_files' \
            '--yes[ask nobody\: what it shows has been looked at]' \
            '--forget[take the word back]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        verify) _arguments \
            '--policy=[the project'"'"'s policy (absent\: sandbox.yaml)]:value:_files' \
            '--method=[methods to verify, M\[,M...\], or all (absent\: the policy'"'"'s own)]:value:(bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop)' \
            '--json=[write the outcomes to this file\: {probe, method, verdict, expected, observed, evidence}, …]:value:_files' \
            '--junit=[write them as JUnit'"'"'s XML to this file]:value:_files' \
            '--html=[write a page with all evidence to this file]:value:_files' \
            '--require=[methods, M\[,M...\], of which a skip is a failure]:value:(bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop)' \
            '*--set=[a setting of this run, FIELD=VALUE such as network.mode=none; may be given several times]:value:_files' \
            '--trust-policy[go on although the policy loosens what `default` protects, and nobody gave the word for it yet]' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
        verify-image) _arguments \
            '--key=[public key, or certificate, in PEM]:value:_files' \
            '--identity=[who must have signed without a key\: an address, or a workflow'"'"'s URI]:value:_files' \
            '--issuer=[who vouched for the identity\: the URL of its login]:value:_files' \
            '--trust=[Sigstore'"'"'s trust configuration in JSON, for services of one'"'"'s own (absent\: the public ones)]:value:_files' \
            '--name=[the image that it must be signed as (absent\: the last part of the repository)]:value:_files' \
            '--rebuild[make it again from its published sources, and compare]' \
            '*--platform=[a platform to make again; may be given several times (absent\: all)]:value:_files' \
            '--mirror=[package mirror\: ADDRESS, or debian=ADDRESS,debian-security=ADDRESS (absent\: as apt here)]:value:_files' \
            '*--insecure=[a registry, HOST\[\:PORT\], that may be spoken to without TLS; may be given several times]:value:_files' \
            '--authorities=[file of certificates to trust in place of the machine'"'"'s]:value:_files' \
            '--logins=[file of logins, as docker and podman write them (absent\: theirs); '"'"'none'"'"' for nobody]:value:_files' \
            '--help[say what it does and takes]' \
            '*::file:_files' ;;
    esac
}
if [ "$funcstack[1]" = _sandwright ]; then _sandwright "$@"
else compdef _sandwright sandwright; fi
