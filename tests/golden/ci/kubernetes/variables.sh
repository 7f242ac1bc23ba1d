# The policy's settings, for the scripts in this directory.
sw_name=sandbox-project-6bfafd92
closing() {
    "$@" \
        quota.yaml \
        networkpolicy.yaml
}
sw_proxied=
sw_profile=sandwright-7a07bd40e320147e8eabf8c49020c415.json
sw_seccomp=7a07bd40e320147e8eabf8c49020c4155036c793f14a1774352f6d6b5aafcf8a
manifests() {
    "$@" namespace.yaml f34271d623a1ac9022c7f0b57cc97778ded4165d2aa79d6bd8361cae7aedfe8b
    "$@" quota.yaml d0ac76607ae9fff8ca64fe139b15af1a86de697db968d85326638b6c9a57ad9f
    "$@" runtimeclass.yaml f7a72f8070f889d94a318609e27f25a50be6007b22b68d63c5a52f5c848bf9ad
    "$@" networkpolicy.yaml 526baf8b3a187e71e799fa5a5b0a5ff6e25a69f2a1ab08a83b6f472732e49ba4
    "$@" job.yaml 1192a487fab324cde004efab3845ff949edf7761ccb202f793b33e00482fb556
}
