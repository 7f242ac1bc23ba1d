module sandwright/grypedb

go 1.26

require github.com/anchore/grype v0.121.2
