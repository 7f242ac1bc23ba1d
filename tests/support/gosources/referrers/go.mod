module sandwright/referrers

go 1.26

require cuelabs.dev/go/oci/ociregistry v0.0.0-20251212221603-3adeb8663819
