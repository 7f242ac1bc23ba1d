# The policy's settings, for the scripts in this directory.
sw_name=sandbox-project-6bfafd92
closing() {
    "$@" \
        quota.yaml \
        networkpolicy.yaml \
        proxy-configmap.yaml \
        proxy-networkpolicy.yaml \
        proxy-service.yaml \
        proxy-deployment.yaml
}
sw_proxied=yes
sw_profile=sandwright-f176634398afeefab1b66465c88dd11d.json
sw_seccomp=f176634398afeefab1b66465c88dd11d3ff9c8f645f3ef82b3be706f0a8b2528
manifests() {
    "$@" namespace.yaml f34271d623a1ac9022c7f0b57cc97778ded4165d2aa79d6bd8361cae7aedfe8b
    "$@" quota.yaml 9c5803c324dc420fd4ccf1f9cd203b8af63cdfe94eda7d1d2f932130a989cb7a
    "$@" networkpolicy.yaml 678c853180120a236406ab97f3624022f7de2f1358fdb6bbac2121f3f373c85c
    "$@" proxy-configmap.yaml 29010a6d6ba4d723604eec5325fabcf39ce1475e2bd51f0c8e7223671cd6903a
    "$@" proxy-networkpolicy.yaml fdb5d4498fa445b62931842afc9fc26c9c7c7f489a3121ea540254a94206aff9
    "$@" proxy-service.yaml d7edef56170257b6762e24b694ddadb085368cb16ea2aeb1e4817f950fc851ce
    "$@" proxy-deployment.yaml 8b0af07e1263efb1f618f1931098199df4ad32b25d28ee00538a9d8252fa8500
    "$@" job.yaml b3cefd0074e43496d87683b9286f893faa19d45813d89dc7358624d8f3a73269
}
