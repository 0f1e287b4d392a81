module ao-__NAME__-exec

go 1.19
