# The policy's settings, for the scripts in this directory.
sw_profile=d0e7b146e40dcd5d3a9e28ed241f8e41841f0d703f2803f54b2425be4fa30c47
inside() {
    "$@" \
        /Users/ada/.cache \
        /Users/ada/project/out \
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
        PATH \
        CI \
        GITHUB_ACTIONS \
        GITHUB_REF \
        GITHUB_REPOSITORY \
        GITHUB_RUN_ID \
        GITHUB_SHA \
        GITLAB_CI \
        CI_COMMIT_REF_NAME \
        CI_COMMIT_SHA \
        CI_JOB_ID \
        CI_PIPELINE_ID \
        SOURCE_DATE_EPOCH
}
never() {
    "$@" \
        CI \
        SANDWRIGHT_INSIDE \
        TMPDIR \
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
sw_proxy=
sw_tmp=/private/var/folders/x/T/sandwright-0123456789ab
sw_tells_tmp=yes
sw_files=1024
sw_time=90
sw_uid=
sw_bridge=
sw_searches=
sw_search=''
links() {
    :
}
settings() {
    "$@" CI true
    "$@" SANDWRIGHT_INSIDE 1
}
proxied() {
    :
}
