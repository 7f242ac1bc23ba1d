# bash completion of sandwright: source it, or put it into a directory of bash-completion.
_sandwright() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} task= index words=
    for ((index = 1; index < COMP_CWORD; index++)); do
        case ${COMP_WORDS[index]} in
            --) compopt -o default; COMPREPLY=(); return ;;
            -*) ;;
            *) [ -n "$task" ] || task=${COMP_WORDS[index]} ;;
        esac
    done
    [ "$word" != = ] || word=
    [ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD-2]}
    case $task$before in
        account-remove--project|account-setup--policy|bridge--policy|bridge--set|build-images--name|build-images--platform|build-images--images|build-images--output|build-images--mirror|build-images--runtime|build-images--require|build-images--engine|build-images--builder|build-images--insecure|build-images--authorities|build-images--logins|bundle--platform|bundle--ref|bundle--bundle|bundle--output|bundle--minimal|bundle--keep|bundle--drop|bundle--trace|check-image--platform|check-image--ref|check-image--output|check-image--budget|check-image--accept|check-image--structure|check-image--runtime|check-image--json|check-image--sarif|check-image--junit|dockerfile--platform|dockerfile--to|dockerfile--images|dockerfile--builder|dockerfile--mirror|explain--policy|explain--arch|explain--facts|explain--set|export-image--to|export-image--platform|export-image--reference|export-image--output|facts--policy|facts--set|init--directory|lint--facts|lock-diff--images|lock-images--name|lock-images--images|lock-images--mirror|lock-images--insecure|lock-images--authorities|lock-images--logins|minimise-capabilities--engine|minimise-capabilities--mode|minimise-capabilities--rootfs|minimise-capabilities--to|prove--preset|prove--require|prove--output|prove-image--policy|prove-image--output|prove-mapping--runtime|prove-mapping--output|publish--to|publish--key|publish--public-key|publish--token|publish--trust|publish--tag|publish--require|publish--matrix|publish--builder|publish--images|publish--output|publish--mirror|publish--insecure|publish--authorities|publish--logins|pull-image--to|pull-image--platform|pull-image--output|pull-image--insecure|pull-image--authorities|pull-image--logins|push-image--tag|push-image--mount-from|push-image--ref|push-image--output|push-image--insecure|push-image--authorities|push-image--logins|render--policy|render--out|render--facts|render--set|run--policy|run--outer|run--set|run--time|run--cidfile|run--telemetry|sbom--format|sbom--platform|sbom--to|sbom--images|sbom--output|sbom--mirror|sbpl-eval--resource|sbpl-eval-D|sbpl-eval--symlink|sbpl-eval--include|sbpl-eval--batch|seccomp-eval--arch|seccomp-eval--cap|setup--group|shim-check--policy|shim-check--set|trust--policy|verify--policy|verify--json|verify--junit|verify--html|verify--set|verify-image--key|verify-image--identity|verify-image--issuer|verify-image--trust|verify-image--name|verify-image--platform|verify-image--mirror|verify-image--insecure|verify-image--authorities|verify-image--logins)
            compopt -o default; COMPREPLY=(); return ;;
        doctor--method) words='bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop' ;;
        explain--method) words='bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop' ;;
        init--method) words='bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop' ;;
        prove--method) words='bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop' ;;
        prove-image--method) words='bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop' ;;
        render--method) words='bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop' ;;
        run--method) words='bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop' ;;
        verify--method) words='bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop' ;;
        verify--require) words='bwrap docker podman gvisor oci seatbelt kubernetes user alcless noop' ;;
        *) case $task in
            '') words='account-remove account-setup bridge build-images bundle check-image cleanup completion dockerfile doctor explain export-image facts init lint lock-diff lock-images minimise-capabilities prove prove-image prove-mapping publish pull-image push-image render run sbom sbpl-eval schema seccomp-eval setup shim-check status trust verify verify-image --help --version' ;;
            account-remove) words='--project --yes --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            account-setup) words='--policy --yes --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            bridge) words='--policy --set --trust-policy --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            build-images) words='--name --platform --images --output --mirror --frozen --verify --smoke --runtime --require --again --strict --dry-run --engine --builder --compare --insecure --authorities --logins --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            bundle) words='--platform --ref --bundle --output --minimal --keep --drop --trace --dependencies --writable --init --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            check-image) words='--platform --ref --output --budget --accept --structure --runtime --json --sarif --junit --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            cleanup) words='--dry-run --json --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            completion) words='bash fish zsh --help'; [ "${word#-}" != "$word" ] || words='bash fish zsh' ;;
            dockerfile) words='--platform --to --images --builder --mirror --frozen --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            doctor) words='--method --fresh --json --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            explain) words='read write exec connect env syscall --policy --method --arch --facts --set --json --help'; [ "${word#-}" != "$word" ] || words='read write exec connect env syscall' ;;
            export-image) words='--to --platform --reference --output --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            facts) words='--policy --set --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            init) words='--directory --method --yes --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            lint) words='--facts --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            lock-diff) words='--images --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            lock-images) words='--name --images --mirror --check --strict --insecure --authorities --logins --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            minimise-capabilities) words='--engine --mode --rootfs --to --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            prove) words='--preset --method --require --output --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            prove-image) words='--method --policy --output --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            prove-mapping) words='--runtime --output --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            publish) words='--to --key --public-key --keyless --token --trust --tag --require --matrix --builder --dry-run --images --output --mirror --insecure --authorities --logins --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            pull-image) words='--to --platform --output --insecure --authorities --logins --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            push-image) words='--tag --mount-from --ref --output --insecure --authorities --logins --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            render) words='--policy --method --out --facts --set --check --diff --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            run) words='--policy --method --outer --set --time --cidfile --telemetry --trust-policy --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            sbom) words='--format --platform --to --check --images --output --mirror --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            sbpl-eval) words='--resource -D --symlink --include --fragment --batch --json --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            schema) words='policy image --help'; [ "${word#-}" != "$word" ] || words='policy image' ;;
            seccomp-eval) words='--arch --cap --json --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            setup) words='--group --dry-run --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            shim-check) words='--policy --set --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            status) words='--json --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            trust) words='--policy --yes --forget --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            verify) words='--policy --method --json --junit --html --require --set --trust-policy --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
            verify-image) words='--key --identity --issuer --trust --name --rebuild --platform --mirror --insecure --authorities --logins --help'; [ "${word#-}" != "$word" ] || { compopt -o default; words=; } ;;
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _sandwright sandwright
