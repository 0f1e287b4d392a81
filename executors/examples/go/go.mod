module ao-go-exec

go 1.19
