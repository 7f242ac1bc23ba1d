# What the policy says, for the scripts beside this file.
sw_name=sandbox-project-6bfafd92
closing() {
    "$@" \
        quota.yaml \
        networkpolicy.yaml
}
sw_proxied=
sw_profile=sandwright-89c4b29c6aeebb491d275a4e2c8a7cd9.json
sw_seccomp=89c4b29c6aeebb491d275a4e2c8a7cd9ab1e16c7a3510999743e91b9cd4d79d1
manifests() {
    "$@" namespace.yaml f34271d623a1ac9022c7f0b57cc97778ded4165d2aa79d6bd8361cae7aedfe8b
    "$@" quota.yaml d0ac76607ae9fff8ca64fe139b15af1a86de697db968d85326638b6c9a57ad9f
    "$@" networkpolicy.yaml 526baf8b3a187e71e799fa5a5b0a5ff6e25a69f2a1ab08a83b6f472732e49ba4
    "$@" job.yaml f4754cae57441b9fcde2045f5a4173151d0bcef24f5b856f5fa62d4e83886ca3
}
