// Command sandboxd is PID 1 of a task's container: it runs commands and moves
// files for the runner in the neighbouring container.
package main

import (
	"fmt"
	"os"
)

// version is set by the linker.
var version = "dev"

const usage = `usage:
  sandboxd serve --socket PATH --runner-uid UID [options]   be PID 1 of a container (--help lists the options)
  sandboxd install FOLDER...                                copy this program into each folder
  sandboxd version
`

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	var err error
	switch command {
	case "serve":
		return serve(args)
	case "supervise":
		err = supervise()
	case "install":
		err = install(args)
	case "version":
		fmt.Println(version)
	default:
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandboxd %s: %v\n", command, err)
		return 1
	}
	return 0
}
