# What the policy says, for the scripts beside this file.
sw_name=sandbox-project-6bfafd92
closing() {
    "$@" \
        quota.yaml \
        networkpolicy.yaml
}
sw_proxied=
sw_profile=sandwright-57778c56968fc6e38c2e40e0e8364790.json
sw_seccomp=57778c56968fc6e38c2e40e0e836479023a7fbc3a3a489e247fd55c1bb9f9197
manifests() {
    "$@" namespace.yaml f34271d623a1ac9022c7f0b57cc97778ded4165d2aa79d6bd8361cae7aedfe8b
    "$@" quota.yaml d0ac76607ae9fff8ca64fe139b15af1a86de697db968d85326638b6c9a57ad9f
    "$@" networkpolicy.yaml 526baf8b3a187e71e799fa5a5b0a5ff6e25a69f2a1ab08a83b6f472732e49ba4
    "$@" job.yaml a2b858b87152a490af8d232472f2fbc05f9b874d04c86198266eabd69615b16e
}
