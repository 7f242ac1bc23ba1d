# What the policy says, for the scripts beside this file.
sw_name=sandbox-project-6bfafd92
closing() {
    "$@" \
        quota.yaml \
        networkpolicy.yaml
}
sw_proxied=
sw_profile=sandwright-6a1e8fb33d54d1b383e67923f5c52558.json
sw_seccomp=6a1e8fb33d54d1b383e67923f5c525588f1b148c52627dfd270a4c80c4f519a2
manifests() {
    "$@" namespace.yaml f34271d623a1ac9022c7f0b57cc97778ded4165d2aa79d6bd8361cae7aedfe8b
    "$@" quota.yaml d0ac76607ae9fff8ca64fe139b15af1a86de697db968d85326638b6c9a57ad9f
    "$@" networkpolicy.yaml 526baf8b3a187e71e799fa5a5b0a5ff6e25a69f2a1ab08a83b6f472732e49ba4
    "$@" job.yaml 47a5ccf97009ac51de6db47f849287571cf5c168df29ba2c432f0aac199305da
}
