module assay.dev/localcluster/pause

go 1.26
