# The policy's settings, for the scripts in this directory.
sw_name=sandbox-project-6bfafd92
closing() {
    "$@" \
        quota.yaml \
        networkpolicy.yaml
}
sw_proxied=
sw_profile=sandwright-d8a641a346798a5003b0b8832a10473b.json
sw_seccomp=d8a641a346798a5003b0b8832a10473bf43bee77672bdbec777363b6ee7ccc3b
manifests() {
    "$@" namespace.yaml f34271d623a1ac9022c7f0b57cc97778ded4165d2aa79d6bd8361cae7aedfe8b
    "$@" quota.yaml d0ac76607ae9fff8ca64fe139b15af1a86de697db968d85326638b6c9a57ad9f
    "$@" networkpolicy.yaml 526baf8b3a187e71e799fa5a5b0a5ff6e25a69f2a1ab08a83b6f472732e49ba4
    "$@" job.yaml b9f611a16e3337b90586bf358b31e83f50031cd4629dac72b4c4da294d4e8329
}
