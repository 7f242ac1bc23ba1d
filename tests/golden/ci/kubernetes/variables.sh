# What the policy says, for the scripts beside this file.
sw_name=sandbox-project-6bfafd92
closing() {
    "$@" \
        quota.yaml \
        networkpolicy.yaml
}
sw_proxied=
sw_profile=sandwright-6216fb60c7a3b34858427092ae90a845.json
sw_seccomp=6216fb60c7a3b34858427092ae90a8458c985f7a98fb88a8b30d659e1d54cba9
manifests() {
    "$@" namespace.yaml f34271d623a1ac9022c7f0b57cc97778ded4165d2aa79d6bd8361cae7aedfe8b
    "$@" quota.yaml d0ac76607ae9fff8ca64fe139b15af1a86de697db968d85326638b6c9a57ad9f
    "$@" runtimeclass.yaml f7a72f8070f889d94a318609e27f25a50be6007b22b68d63c5a52f5c848bf9ad
    "$@" networkpolicy.yaml 526baf8b3a187e71e799fa5a5b0a5ff6e25a69f2a1ab08a83b6f472732e49ba4
    "$@" job.yaml f900c1843793e77085ce1bbf110ac26ab4f287b55e9cf5c8134d831bc2ea163c
}
