module sandwright/imageschema

go 1.26

require github.com/opencontainers/image-spec v1.1.1
