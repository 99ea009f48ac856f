module cloud.google.com/go/profiler

go 1.26
