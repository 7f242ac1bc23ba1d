# What the policy says, for the scripts beside this file.
sw_name=sandbox-project-6bfafd92
closing() {
    "$@" \
        quota.yaml \
        networkpolicy.yaml
}
sw_proxied=
sw_profile=sandwright-77714c3053c1a2f53c60c5579cfcf39f.json
sw_seccomp=77714c3053c1a2f53c60c5579cfcf39f305f89194d456533e60dfdf8b822e903
manifests() {
    "$@" namespace.yaml f34271d623a1ac9022c7f0b57cc97778ded4165d2aa79d6bd8361cae7aedfe8b
    "$@" quota.yaml d0ac76607ae9fff8ca64fe139b15af1a86de697db968d85326638b6c9a57ad9f
    "$@" runtimeclass.yaml f7a72f8070f889d94a318609e27f25a50be6007b22b68d63c5a52f5c848bf9ad
    "$@" networkpolicy.yaml 526baf8b3a187e71e799fa5a5b0a5ff6e25a69f2a1ab08a83b6f472732e49ba4
    "$@" job.yaml 8f68f0f6623da09e70b36336753dacad079679af026069a506a031294e11ccac
}
