# The policy's settings, for the scripts in this directory.
sw_profile=8c01e7729ce18a42476805bca3526b351c6c31dbbc18cd65e97519b4e7857ef7
inside() {
    "$@" \
        /Users/ada/project \
        /dev/null \
        /dev/ptmx \
        /dev/tty \
        /dev/zero
}
passed() {
    "$@" \
        TERM \
        COLORTERM \
        NO_COLOR \
        LANG \
        LANGUAGE \
        'LC_*' \
        TZ \
        USER \
        LOGNAME \
        SHELL \
        HOME \
        PATH
}
never() {
    "$@" \
        ALL_PROXY \
        CARGO_HTTP_PROXY \
        HTTPS_PROXY \
        HTTP_PROXY \
        JAVA_TOOL_OPTIONS \
        NODE_USE_ENV_PROXY \
        NO_PROXY \
        PIP_PROXY \
        PYTHONDONTWRITEBYTECODE \
        SANDWRIGHT_INSIDE \
        TMPDIR \
        YARN_HTTPS_PROXY \
        YARN_HTTP_PROXY \
        all_proxy \
        http_proxy \
        https_proxy \
        no_proxy \
        npm_config_https_proxy \
        npm_config_noproxy \
        npm_config_proxy \
        BASH_ENV \
        'DYLD_*' \
        ENV \
        GCONV_PATH \
        'GIT_CONFIG_*' \
        GIT_EXEC_PATH \
        GIT_SSH_COMMAND \
        IFS \
        JAVA_TOOL_OPTIONS \
        'LD_*' \
        NODE_OPTIONS \
        NODE_PATH \
        PERL5LIB \
        PERL5OPT \
        PROMPT_COMMAND \
        PYTHONHOME \
        PYTHONPATH \
        PYTHONSTARTUP \
        RUBYLIB \
        RUBYOPT
}
sw_proxy=yes
sw_tmp=/private/var/folders/x/T/sandwright-0123456789ab
sw_tells_tmp=yes
sw_files=4096
sw_time=1800
sw_uid=
sw_bridge=
sw_searches=
sw_search=''
links() {
    :
}
settings() {
    "$@" PYTHONDONTWRITEBYTECODE 1
    "$@" SANDWRIGHT_INSIDE 1
}
proxied() {
    "$@" http_proxy http://127.0.0.1: ''
    "$@" https_proxy http://127.0.0.1: ''
    "$@" all_proxy http://127.0.0.1: ''
    "$@" no_proxy localhost,127.0.0.1,::1
    "$@" HTTP_PROXY http://127.0.0.1: ''
    "$@" HTTPS_PROXY http://127.0.0.1: ''
    "$@" ALL_PROXY http://127.0.0.1: ''
    "$@" NO_PROXY localhost,127.0.0.1,::1
    "$@" NODE_USE_ENV_PROXY 1
    "$@" npm_config_proxy http://127.0.0.1: ''
    "$@" npm_config_https_proxy http://127.0.0.1: ''
    "$@" npm_config_noproxy localhost,127.0.0.1,::1
    "$@" YARN_HTTP_PROXY http://127.0.0.1: ''
    "$@" YARN_HTTPS_PROXY http://127.0.0.1: ''
    "$@" PIP_PROXY http://127.0.0.1: ''
    "$@" CARGO_HTTP_PROXY http://127.0.0.1: ''
    "$@" JAVA_TOOL_OPTIONS '-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=' ' -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=' ' -Dhttp.nonProxyHosts=localhost|127.*|[::1]'
}
