module sandwright/bundlevalidator

go 1.26

require (
	github.com/opencontainers/runtime-spec v1.3.0
	github.com/opencontainers/runtime-tools v0.9.1-0.20251114084447-edf4cb3d2116
	github.com/xeipuuv/gojsonschema v1.2.0
)
